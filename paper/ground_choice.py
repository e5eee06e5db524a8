"""The settings of ``ProPMLClassifier()``: chosen on all datasets but one, judged on the one left out.

    PROPML_DATA=… python paper/ground_choice.py [--rows 600] [--noise "class-flips 0.3"] [--out paper/ground_choice.csv]

Tried: layers of the networks, their multiple of the balanced λ, how trees grow, whether ranking networks count
candidates by their plausibility, and at which quantile of predictions for excluded labels that begins; ensemble
weights chosen on held-out candidates, with and without some members, with rare labels and plausible candidates
counting more or not, or equal; how much of the noise floor is taken away, and its quantile. Every setting (dataset ×
noise × networks) is fitted once; the members' opinions on held-out and on test rows are then put together in every
way that is tried. Printed, and by ``regenerate.py`` put into ``paper/README.md``: for each dataset what the others
chose, its average precision there (percent), what the classifier's own settings reach, the networks alone, and the
best that its true labels could have chosen.
"""

from __future__ import annotations

import argparse
import csv
import itertools
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from kept import age_text

from propml import ProPMLClassifier
from propml.benchmark.provenance import age_of, fingerprint
from propml.benchmark.reporting.formats import markdown_table
from propml.corruption import corrupt
from propml.datasets import load
from propml.methods import propml_arguments
from propml.metrics import average_precision
from propml.neural import linear
from propml.neural.criteria import average_precision_loss
from propml.neural.fitting import plausibility_of
from propml.neural.forest import Trees
from propml.neural.judgement import QUANTILE, SHARE, candidate_sigmoid, noise_floor, true_logits
from propml.neural.members import RARITY, RARITY_ALONE, chosen_weights
from propml.neural.saving import ensemble_from_state

DATASETS = ("birds", "cal500", "chd-49", "enron", "foodtruck", "genbase", "medical", "scene", "yeast")
NOISES: tuple[tuple[str, dict[str, float]], ...] = (
    ("none", {}),
    ("flips", {"rate": 0.2}),
    ("class-flips", {"rate": 0.2}),
    ("svm", {"ratio": 1.0}),
    ("neighbours", {"ratio": 1.0}),
)
NETWORKS: dict[str, dict[str, Any]] = {
    "two layers": {},
    "balanced λ": {"multiple": 1.0},
    "one layer": {"hidden": (256,)},
    "all candidates alike": {"plausibility": False},
    "noise at 0.5": {"upper": 0.5},
    "noise at 0.9": {"upper": 0.9},
    "trees as usual": {"trees": Trees(100)},
    "leaves of one row": {"trees": Trees(100, columns=4.0)},
    "fewer columns": {"trees": Trees(100, leaf=2)},
}
# Members whose weights are chosen on held-out candidates, by default all; or all with equal weights.
MEMBERS = ("ProPML", "ranking", "linear", "forest")
# Who is weighed, to what power rare labels count more, and whether plausible candidates do; None: equal weights.
WEIGHTS: dict[str, tuple[tuple[str, ...], float, bool] | None] = {
    "chosen": (MEMBERS, RARITY, True),
    "equal": None,
    "candidates alike": (MEMBERS, RARITY_ALONE, False),
    "rarity 0": (MEMBERS, 0.0, True),
    "rarity 1/2": (MEMBERS, 0.5, True),
    "no forest": (MEMBERS[:3], RARITY, True),
    "no linear": (("ProPML", "ranking", "forest"), RARITY, True),
    "networks": (MEMBERS[:2], RARITY, True),
}
SHARES, QUANTILES = (0.0, 0.25, 0.5, 0.75), (0.1, 0.25)
AUTO, MOST_ENTRIES, UPPER = propml_arguments.EFFORTS["auto"], linear.MOST_ENTRIES, linear.UPPER
CHOSEN = ("networks", "weights", "share", "quantile")
OPTIONS = list(itertools.product(NETWORKS, WEIGHTS, SHARES, QUANTILES))
OURS = (next(iter(NETWORKS)), "chosen", SHARE, QUANTILE)
# The first line of the CSV is this with the fingerprint of what made it.
CODE, MODULES = "# code ", ("propml.methods.propml",)
ALONE = (next(iter(NETWORKS)), "networks", 0.0, QUANTILES[0])


def main() -> None:
    """Fit, choose, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=600, help="rows of each dataset, drawn at random (default: 600)")
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--noise", help='one kind in the place of all, such as "class-flips 0.3"; or "real"')
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("ground_choice.csv"),
        help="a row for every combination, a column for every setting",
    )
    arguments = parser.parse_args()
    noises = NOISES
    if arguments.noise:
        kind, _, rate = arguments.noise.partition(" ")
        if (kind, bool(rate)) not in {("real", False), ("none", False), ("flips", True), ("class-flips", True)}:
            parser.error(f'--noise is {arguments.noise!r}; give "real", "none", "flips RATE" or "class-flips RATE"')
        noises = ((kind, {"rate": float(rate)} if rate else {}),)
    settings = [(name, noise) for name in arguments.datasets.split(",") for noise in noises]
    work = joblib.Parallel(n_jobs=arguments.jobs, verbose=5)
    found = work(joblib.delayed(on_setting)(name, *noise, arguments.rows) for name, noise in settings)
    with arguments.out.open("w", encoding="utf-8", newline="") as file:
        file.write(f"{CODE}{fingerprint(MODULES)}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*CHOSEN, *(f"{name} {noise}" for name, (noise, _) in settings)])
        for option, values in zip(OPTIONS, np.transpose(found), strict=True):
            writer.writerow([*option, *(f"{value:.3f}" for value in values)])
    print(choice_table(arguments.out))


def on_setting(name: str, noise: str, level: dict[str, float], most: int) -> np.ndarray:
    """The average precision of every combination, in percent, on a fifth of the rows."""
    torch.set_num_threads(1)
    data = load(name).drop_unlabelled()
    rows = np.random.default_rng(0).permutation(len(data.truth))[:most]
    X, truth = data.X[rows], np.asarray(data.truth)[rows]
    candidates = data.candidates[rows] if noise == "real" else corrupt(noise, X, truth, **level)
    candidates = candidates.to_matrix()
    test, train = np.split(np.arange(len(rows)), [len(rows) // 5])
    train = train[candidates[train].any(axis=1)]
    values = []
    for arguments in NETWORKS.values():
        members, opinions = opinions_of(arguments, X, candidates, train, test)
        held = [member.held for member in members]
        for weighed in WEIGHTS.values():
            weights = np.ones(len(members))
            if weighed is not None:
                some = [place for place, member in enumerate(members) if member.name in weighed[0]]
                own, marks = [members[place] for place in some], candidates[train]
                plausible = plausibility_of(own, marks, None) if weighed[2] else None
                weights[:] = 0
                weights[some] = chosen_weights(own, marks, average_precision_loss, None, plausible, weighed[1])
            for share, quantile in itertools.product(SHARES, QUANTILES):
                values.append(of_option(weights, share, quantile, held, opinions, candidates[train], truth[test]))
    return np.array(values)


def opinions_of(arguments: dict[str, Any], X: Any, candidates: np.ndarray, train: np.ndarray, test: np.ndarray) -> Any:
    """All members, whatever their weights, and their standardised opinions on the test rows."""
    own = dict(arguments)
    propml_arguments.EFFORTS["auto"] = AUTO._replace(
        lams={"ProPML": own.pop("multiple", AUTO.lams["ProPML"])}, trees=own.pop("trees", AUTO.trees)
    )
    linear.MOST_ENTRIES = MOST_ENTRIES if own.pop("plausibility", True) else 0
    linear.UPPER = own.pop("upper", UPPER)
    model = ProPMLClassifier(forest=True, random_state=0, **own)
    fitted = model._fitted(X[train], candidates[train], None)
    ensemble = ensemble_from_state(model.ensemble_).double()
    dense = X[test].toarray() if hasattr(X, "toarray") else X[test]
    scaled = ensemble.scaler(torch.as_tensor(dense, dtype=torch.float64))
    encoded = scaled if ensemble.bins is None else ensemble.bins(scaled)
    with torch.no_grad():
        opinions = [m.standard.apply(m.module.double()(encoded).double()).numpy() for m in fitted.members]
    return fitted.members, opinions


def of_option(
    weights: Any, share: float, quantile: float, held: list, opinions: list, states: np.ndarray, truth: np.ndarray
) -> float:
    """Average precision of one combination, in percent."""
    shares = np.asarray(weights) / np.sum(weights)
    inside = np.tensordot(shares, np.nan_to_num(held), 1)
    slope, offset = candidate_sigmoid(inside, states)
    rate = torch.from_numpy(share * noise_floor(slope * inside + offset, quantile))
    logits = torch.from_numpy(slope * np.tensordot(shares, opinions, 1) + offset)
    return 100 * float(average_precision(truth, true_logits(logits, rate).numpy()))


def choice_table(path: Path) -> str:
    """The table of what was chosen without each dataset, and what it cost there, from the CSV."""
    lines = path.read_text(encoding="utf-8").splitlines()
    code = lines.pop(0).removeprefix(CODE) if lines[0].startswith(CODE) else ""
    head, *rows = csv.reader(lines)
    settings, measured = head[len(CHOSEN) :], np.array([row[len(CHOSEN) :] for row in rows], dtype=float)
    if [row[: len(CHOSEN)] for row in rows] != [[str(value) for value in option] for option in OPTIONS]:
        raise ValueError(f"{path.name} holds other combinations than those that are tried today; run ground_choice.py")
    owner = np.array([setting.split()[0] for setting in settings])
    values = {name: measured[:, owner == name].mean(axis=1) for name in dict.fromkeys(owner.tolist())}
    ours, alone = OPTIONS.index(OURS), OPTIONS.index(ALONE)
    table, numbers = [], []
    for name, mine in values.items():
        chosen = int(np.mean([found for other, found in values.items() if other != name], axis=0).argmax())
        networks, weights, share, quantile = OPTIONS[chosen]
        numbers.append([mine[chosen], mine[ours], mine[alone], mine.max()])
        table.append([name, f"{networks}, {weights}, {share:g}, {quantile:g}", *(f"{v:.2f}" for v in numbers[-1])])
    table.append(["mean", "", *(f"{value:.2f}" for value in np.mean(numbers, axis=0))])
    columns = ["left out", "chosen elsewhere: networks, weights, share, quantile", "there", "ours"]
    others = []
    for number, kind in ((0, NETWORKS), (1, WEIGHTS)):
        for name in kind:
            option = OPTIONS.index(tuple(name if k == number else value for k, value in enumerate(OURS)))
            others.append(f"{name}: {np.mean([mine[option] for mine in values.values()]):.2f}")
    shown = markdown_table([*columns, "networks alone", "best"], table, left=range(2))
    return f"{shown}\n\nOurs with other networks or weights: {'; '.join(others)}. {age_text([age_of(code, MODULES)])}"


if __name__ == "__main__":
    main()

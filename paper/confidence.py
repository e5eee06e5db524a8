"""What confidences of votes are worth: errors found by an audit with and without them, by levels of confidence.

    python paper/confidence.py

Simulated models see each label through noise: true and false ones are d standard deviations apart (the separation, one
number for each model). They propose labels that are true with a probability above the threshold. That probability is
their confidence: as it is ("calibrated"), or numbers drawn at random ("random"). Average precision of the false
candidates, ranked by 1 − P(true); mean of three seeds. Prints a Markdown table.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.special import expit, logit
from sklearn.metrics import average_precision_score

import propml
from propml.auditing import annotator_model
from propml.datasets import digits_mosaic, load
from propml.methods.ridge import RidgeRegressionClassifier
from propml.targets import Annotations, Candidates

SEEDS, LEVELS = 3, (2, 3, 4)
SETTINGS = (((1.5, 2, 2.5), 0.2), ((1.5, 2, 2.5), 0.5), ((1, 1.5, 2), 0.2), ((1.5, 2), 0.2))


def simulated(truth: np.ndarray, separation: tuple[float, ...], threshold: float, seed: int) -> Candidates:
    """Votes with calibrated confidences; one vote at least, so that every row is a row of the table."""
    rng = np.random.default_rng(seed)
    parts = []
    for who, d in enumerate(separation):
        seen = d * truth + rng.normal(size=truth.shape)
        sure = expit(logit(truth.mean(axis=0)) + d * seen - d * d / 2)
        proposed = sure > threshold
        row, label = np.nonzero(proposed)
        nothing = np.flatnonzero(~proposed.any(axis=1))
        parts += [np.stack([row, np.full(len(row), who), label, sure[row, label]])]
        parts += [np.stack([nothing, np.full(len(nothing), who), np.full(len(nothing), -1), np.ones(len(nothing))])]
    table = np.concatenate(parts, axis=1)
    row, who, label = table[:3].astype(np.int64)
    votes = Annotations(row, who, label, tuple(f"model {a}" for a in range(len(separation))), table[3])
    states = (votes.counts(truth.shape) > 0).astype(np.int8)
    return Candidates(states, tuple(range(truth.shape[1])), np.arange(len(truth)), votes)


def told(candidates: Candidates, confidence: np.ndarray | None) -> Candidates:
    return replace(candidates, annotations=replace(candidates.annotations, confidence=confidence))


def found(X, truth: np.ndarray, candidates: Candidates) -> float:
    marked = candidates.to_matrix() > 0
    report = propml.audit(X, candidates, model=RidgeRegressionClassifier(10.0))
    return average_precision_score(truth[marked] == 0, -report.probabilities[marked])


def problems() -> Iterator[tuple[str, object, np.ndarray]]:
    mosaic, tweets = digits_mosaic(800), load("redv2")
    for name, data in (("mosaic", mosaic), ("REDv2", tweets)):
        truth = np.asarray(data.truth)
        kept = np.flatnonzero(truth.any(axis=1))
        yield name, data.X[kept], truth[kept]


def main() -> None:
    print(
        "| data | separation, threshold | confidences | not used | " + " | ".join(f"{n} levels" for n in LEVELS) + " |"
    )
    print("|---|---|---|---|" + "---|" * len(LEVELS))
    for name, X, truth in problems():
        for separation, threshold in SETTINGS:
            votes = [simulated(truth, separation, threshold, seed) for seed in range(SEEDS)]
            bare = [told(v, None) for v in votes]
            random = [told(v, np.random.default_rng(s).random(len(v.annotations.row))) for s, v in enumerate(votes)]
            for kind, given in (("calibrated", votes), ("random", random)):
                scores = [np.mean([found(X, truth, candidates) for candidates in bare])]
                for annotator_model.LEVELS in LEVELS:
                    scores.append(np.mean([found(X, truth, candidates) for candidates in given]))
                shown = " | ".join(f"{score:.3f}" for score in scores)
                setting = f"{', '.join(map(str, separation))}; {threshold}"
                print(f"| {name} | {setting} | {kind} | {shown} |", flush=True)


if __name__ == "__main__":
    main()

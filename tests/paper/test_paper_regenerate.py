"""The tables and diagrams of ``paper/`` and ``docs/`` say what the numbers beside them say, and how old those are."""

import importlib
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from propml import benchmark
from propml.benchmark.provenance import fingerprint
from propml.benchmark.results import FoldResult
from propml.benchmark.runner import run_experiment

PAPER = Path(__file__).parents[2] / "paper"
METHODS = ["ProPML default", "Ridge", "Logistic"]


@pytest.fixture(scope="module")
def regenerate():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PAPER)
        return importlib.import_module("regenerate")


@pytest.fixture(scope="module")
def numbers(regenerate):
    return regenerate.load_numbers()


def outcome(cell):
    """Numbers that are easy to check: the default is best, by as many points as there are methods after it."""
    gain = METHODS[::-1].index(cell.method.name) if cell.method.name in METHODS else 0
    folds = []
    for fold in range(getattr(cell, "folds", 1)):
        values = dict.fromkeys(cell.metrics, 0.5 + 0.01 * gain + 0.02 * cell.seed)
        scores = np.zeros((2, 3), dtype=np.float32)
        folds.append(FoldResult(fold, np.arange(2), scores, scores.astype(np.uint8), values, 2.0 * (gain + 1), 0.5))
    return cell.result(folds)


def run(folder, name, **part):
    run_experiment(benchmark.load_experiment(name).narrowed(**part), folder, verbose=False, compute=outcome)
    return folder


def test_nothing_differs_from_the_numbers(regenerate, numbers):
    assert regenerate.differences(numbers) == [], "run python paper/regenerate.py"


def test_another_number_makes_another_table(regenerate, numbers):
    place = next(place for place in numbers if (place.setting.dataset, place.method) == ("scene", "Ridge"))
    means = {name: mean._replace(mean=mean.mean + 0.01) for name, mean in numbers[place].means.items()}
    changed = {**numbers, place: numbers[place]._replace(means=means)}
    first, other = regenerate.parts(numbers), regenerate.parts(changed)
    assert {name for name in first if other[name] != first[name]} == {"artificial"}


def test_a_page_without_a_place_for_a_part_is_told(regenerate):
    with pytest.raises(ValueError, match=r"a.md needs <!-- generated: ranks --> and <!-- end: ranks --> once each"):
        regenerate.regenerated("# Nothing", {"ranks": "|"}, "a.md")


def test_a_row_is_old_until_it_is_run_again(regenerate, numbers):
    def told(code, method="Ridge"):
        dated = {
            place: kept._replace(code=code if place.method == method else fingerprint(["propml.methods.cplst"]))
            for place, kept in numbers.items()
            if place.experiment == "artificial" and place.method in ("CPLST", method)
        }
        return regenerate.older(dated, ["artificial", "real-world"])

    assert told("") == "**Older than the code.** Artificial candidate labels, of unknown age: Ridge."
    assert told("0123456789abcdef").endswith("labels, made by code or settings that have changed since: Ridge.")
    assert told(fingerprint(["propml.methods.ridge"])) == "None of these numbers is older than the code."
    assert regenerate.older({}, ["artificial"]) == ""


def test_a_run_is_taken_in_and_what_is_partial_is_not(regenerate, tmp_path, monkeypatch, capsys):
    """From real fits to files: a row appears, is replaced, and the check notices a change by hand."""
    kept = importlib.import_module("kept")
    page = tmp_path / "page.md"
    page.write_text("<!-- generated: older -->\n<!-- end: older -->\n")
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(regenerate, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(regenerate, "PAGES", {page: ("older",)})
    monkeypatch.setattr(regenerate, "parts", lambda numbers: {"older": regenerate.older(numbers, ["quick"])})
    monkeypatch.setattr(regenerate, "figures", lambda numbers: {})
    quick = benchmark.load_experiment("quick").narrowed(methods=["Ridge", "CPLST"], noise=[0.5])
    benchmark.run(quick.narrowed(methods=["Ridge"]), tmp_path / "whole", verbose=False)
    benchmark.run(replace(quick, test_folds=1), tmp_path / "part", verbose=False)

    regenerate.main(["--add", str(tmp_path / "whole"), str(tmp_path / "part")])
    told = capsys.readouterr().out
    assert "whole: 1 taken" in told
    assert "part: 0 taken" in told
    assert "want of folds or seeds of the experiment as it is today: quick digits-mosaic 50 % CPLST and" in told
    ((place, ridge),) = kept.load_numbers(tmp_path / "results").items()
    measured = {mean.metric: mean for mean in benchmark.load_results(tmp_path / "whole").means()}
    assert place.method == "Ridge"
    assert ridge.code.startswith(f"{fingerprint(['propml.methods.ridge'])}:")
    assert ridge.means["one_error"].mean == pytest.approx(measured["one_error"].mean, abs=0.005)
    assert ridge.means["one_error"].n == 3
    assert "None of these numbers is older than the code." in page.read_text()
    with pytest.raises(SystemExit) as ended:
        regenerate.main(["--check"])
    assert ended.value.code == 0

    with pytest.raises(SystemExit, match="nothing was taken in"):
        regenerate.main(["--add", str(tmp_path / "part")])
    (tmp_path / "results" / "vision-noise-paper.svg").write_text("")
    page.write_text(page.read_text().replace("None", "Some"))
    with pytest.raises(SystemExit, match=r"numbers say: page.md, vision-noise-paper.svg; run this without"):
        regenerate.main(["--check"])


def test_a_new_run_replaces_the_old_row_of_its_place_alone(regenerate, numbers, tmp_path):
    run(tmp_path, "artificial", datasets=["birds"], noise=[0.5], methods=["Ridge"])
    new, partial = importlib.import_module("kept").of_runs(tmp_path)
    assert partial == []
    merged = {**numbers, **new}
    assert merged.keys() == numbers.keys()
    assert regenerate.older(new, ["artificial"]).startswith("None of these numbers is older")
    other = {place: made._replace(code=made.code[:-8] + "01234567") for place, made in new.items()}
    assert "settings that have changed since: all rows" in regenerate.older(other, ["artificial"])
    ((place, kept),) = [(each, merged[each]) for each in merged if merged[each] != numbers[each]]
    assert (place.setting.dataset, place.setting.noise.title, place.method) == ("birds", "50 %", "Ridge")
    assert kept.means["coverage:paper"].mean == pytest.approx(51)
    assert re.fullmatch(r"[0-9a-f]{10}(-dirty)?|propml .*", kept.commit)


def test_the_proving_ground(regenerate, tmp_path):
    run(tmp_path, "ground", datasets=["birds", "scene"], noise=["none", "flips 0.2"], methods=[*METHODS, "PML-NI"])
    numbers = {}
    regenerate.add(numbers, [tmp_path])
    assert {place.method for place in numbers} == set(METHODS)  # what the tables do not show is not kept
    text = importlib.import_module("kept").files(numbers)["ground.csv"]
    (tmp_path / "ground.csv").write_text(text)
    numbers = regenerate.load_numbers(tmp_path)
    assert len(text.splitlines()) == 1 + 2 * 2 * 3
    shown = regenerate.ground_tables(numbers)
    rows = [re.split(r" *\| *", line.strip("| ")) for line in shown.splitlines()]
    assert [row[:4] for row in rows if row[0] == "Birds"][:2] == [["Birds", "52.00", "", ""]] * 2
    assert ["Logistic", "+2.00", "+2.00", "2", "0", "0.5"] in rows
    assert "Not run with this version" in regenerate.ground_tables({})


def test_images_have_deviations_over_seeds_and_lack_them_for_one(regenerate, tmp_path):
    run(tmp_path, "vision", noise=[0.1, 0.4], methods=["BCE", "ProPML"])
    numbers = {}
    regenerate.add(numbers, [tmp_path])
    lines = regenerate.vision_table(regenerate.own_means(numbers), "vision").splitlines()
    assert re.split(r" *\| *", lines[-1].strip("| ")) == ["ProPML", "**52.0** ± 2.0 (89.43)", "**52.0** ± 2.0 (86.82)"]
    run(tmp_path / "one", "vision", noise=[0.1], methods=["BCE"], seeds=[0])
    assert importlib.import_module("kept").of_runs(tmp_path / "one")[0] == {}


def test_metrics_against_lambda(regenerate, tmp_path):
    run(tmp_path, "lambda", datasets=["yeastcc"])
    numbers = {}
    regenerate.add(numbers, [tmp_path])
    shown = regenerate.lambda_table(regenerate.own_means(numbers))
    assert [re.split(r" *\| *", line)[2] for line in shown.splitlines()[2:8]] == [
        "0.02",
        "0.05",
        "0.1",
        "0.2",
        "0.5",
        "1",
    ]
    assert "YeastCC, λ from 0.02 to 1: average precision between 50.00 and 50.00" in shown
    _, axes = regenerate.lambda_metrics(regenerate.lambda_rows(regenerate.own_means(numbers)))
    assert [len(axis.lines) for axis in axes] == [5 + 1]  # a curve for each metric, and the paper's λ

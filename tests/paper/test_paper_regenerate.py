"""The tables and diagrams under ``paper/`` say what the numbers beside them say."""

import importlib
from pathlib import Path

import pytest

PAPER = Path(__file__).parents[2] / "paper"


@pytest.fixture(scope="module")
def regenerate():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(PAPER)
        return importlib.import_module("regenerate")


@pytest.fixture(scope="module")
def means(regenerate):
    return regenerate.load_means()


@pytest.fixture(scope="module")
def generated(regenerate, means):
    return regenerate.parts(means)


@pytest.mark.parametrize("name", ["real-world", "artificial", "vision", "ranks", "claims"])
def test_every_table_of_the_readme_is_that_of_its_numbers(regenerate, generated, name):
    text = (PAPER / "README.md").read_text(encoding="utf-8")
    assert regenerate.regenerated(text, {name: generated[name]}) == text, "run python paper/regenerate.py"


def test_another_number_makes_another_table(regenerate, means, generated):
    changed = [
        row._replace(mean=row.mean + 0.01) if (row.dataset, row.method) == ("scene", "Ridge") else row for row in means
    ]
    other = regenerate.parts(changed)
    assert {name for name in generated if other[name] != generated[name]} == {"artificial"}


def test_the_diagrams_are_those_of_the_numbers(regenerate, means, tmp_path):
    from propml.benchmark.figures import save

    for name, figure in regenerate.figures(means).items():
        kept = PAPER / "results" / name
        assert save(figure, tmp_path / name).read_bytes() == kept.read_bytes(), "run python paper/regenerate.py"


def test_a_readme_without_a_place_for_a_part_is_told(regenerate):
    with pytest.raises(ValueError, match="needs <!-- generated: ranks --> and <!-- end: ranks --> once each"):
        regenerate.regenerated("# Nothing", {"ranks": "|"})

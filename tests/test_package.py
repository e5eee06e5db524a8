"""Facts about the package as a whole: what importing it costs, and what it says when something is missing."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import propml
from propml.extras import EXTRAS, installed, require
from propml.progress import progress_bar, track

ROOT = Path(__file__).parents[1]
HEAVY = ["matplotlib", "timm", "torchvision", "ray", "optuna", "polars", "jinja2"]


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "nowhere_to_be_found", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'propml[report]'")):
        require("nowhere_to_be_found.inside", "report")


def test_a_broken_package_speaks_for_itself(monkeypatch, tmp_path):
    (tmp_path / "broken_package.py").write_text("raise ImportError('its own reason')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="its own reason"):
        require("broken_package", "report")


def test_present_extras_are_found():
    assert require("matplotlib", "report").__name__ == "matplotlib"
    assert installed("report")
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert all(re.search(rf"^{extra} = \[", text, flags=re.MULTILINE) for extra in EXTRAS)


def test_version_stands_in_the_changelog_and_the_citation():
    assert f"## {propml.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"version: {propml.__version__}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


# Rooms, and what stands on the floor between them, from left to right.
ORDER = [
    "messages",
    "atomic_files",
    "file_errors",
    "schema",
    "unpacking",
    "devices",
    "folds",
    "jsonable",
    "output",
    "extras",
    "progress",
    "persistence",
    "target_checks",
    "targets",
    "range_scaler",
    "datasets",
    "tables",
    "corruption",
    "noise",
    "losses",
    "neural",
    "methods",
    "metrics",
    "vision",
    "auditing",
    "paper",
    "benchmark",
    "tuning",
    "streaming",
    "cli",
]


def test_imports_stay_light():
    code = f"""
import importlib, sys
for room in {["propml", *(f"propml.{room}" for room in ORDER)]}:
    importlib.import_module(room)
    assert not (heavy := [name for name in {HEAVY} if name in sys.modules]), f"{{room}} imports {{heavy}}"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def modules_of(room):
    folder = ROOT / "src" / "propml" / room
    return list(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def test_every_room_has_its_place():
    inside = {path.stem for path in (ROOT / "src" / "propml").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert inside - {"__init__", "__main__", "__pycache__"} == set(ORDER)


def reached(tree):
    """Dotted names in our package that code reaches: by import, also in a function, or by name, as resources are."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.match(r"propml(\.\w+)+\.?$", node.value)
        ):
            yield node.value


def rooms_reached(code):
    """Rooms behind these names; what ``propml`` itself offers late lies in the room that it comes from."""
    names = [name.split(".") for name in reached(ast.parse(code)) if name.startswith("propml.")]
    return {propml._LAZY.get(parts[1], f"propml.{parts[1]}").split(".")[1] for parts in names}


@pytest.mark.parametrize("room", ORDER)
def test_nothing_reaches_a_room_to_its_right(room):
    for file in modules_of(room):
        beyond = rooms_reached(file.read_text(encoding="utf-8")) & set(ORDER[ORDER.index(room) + 1 :])
        assert not beyond, f"{file.name} reaches {sorted(beyond)}"


@pytest.mark.parametrize(
    ("code", "room"),
    [
        ("import propml.cli.app", "cli"),
        ("def late():\n    from propml.benchmark.results import load_results", "benchmark"),
        ("def late():\n    from propml import tuning", "tuning"),
        ("from propml import audit", "auditing"),
        ("importlib.import_module('propml.vision')", "vision"),
        ("importlib.import_module(f'propml.losses.{name}')", "losses"),
        ("resources.files('propml.benchmark.reporting') / 'page'", "benchmark"),
    ],
)
def test_every_way_to_reach_a_room_is_noticed(code, room):
    assert rooms_reached(code) == {room}
    assert rooms_reached('"See propml.cli for more"\nfrom numpy import array') == set()


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "propml", "--version"], capture_output=True, text=True, check=True)
    assert propml.__version__ in done.stdout


def test_progress_shows_on_a_terminal_only(capsys, monkeypatch):
    with progress_bar("working", 2) as bar:
        bar.advance()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert list(track(range(3), "counting", 3)) == [0, 1, 2]
    with progress_bar("working", 2) as bar:
        bar.advance(note="half")
    assert "working" in capsys.readouterr().err
    with progress_bar("working", 2, show=False) as bar:
        bar.advance()
    assert capsys.readouterr().err == ""


def test_randomness_has_one_name_on_each_side():
    """``random_state`` where scikit-learn's users call, ``seed`` in searches and recipes (CONTRIBUTING.md)."""
    from propml import corruption, tuning
    from propml.methods.registry import METHODS, method_class
    from propml.vision.recipe import VisionRecipe

    called = [propml.audit, propml.lambda_path, *(getattr(corruption, name) for name in corruption.__all__)]
    called += [method_class(name) for name in METHODS]
    names = {each: inspect.signature(each).parameters for each in called if callable(each)}
    assert not [each for each, arguments in names.items() if "seed" in arguments]
    assert any("random_state" in arguments for arguments in names.values())
    for each in (tuning.search, tuning.run_search, VisionRecipe):
        assert "seed" in (arguments := inspect.signature(each).parameters)
        assert "random_state" not in arguments

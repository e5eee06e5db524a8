"""Fingerprints of code: what changes them and what does not, and what the status of a results folder tells of them."""

import json
import subprocess
import sys
from dataclasses import replace

import fake_cells
import pytest
from fake_cells import cell, experiment, outcome
from typer.testing import CliRunner

from propml.benchmark.provenance import age, fingerprint, made_by, run_provenance, with_imports
from propml.benchmark.runner import run_experiment
from propml.benchmark.store import ResultStore
from propml.cli.benchmark import app

METHOD = '''"""A method."""

from typing import TYPE_CHECKING

from propml.losses import used
from propml.tools import helper

if TYPE_CHECKING:
    from propml.typing_only import Thing


class Method:
    """What it is."""

    def fit(self):
        """Fit."""
        from .later import late

        return used() + helper() + late()
'''
FILES = {
    "methods/ours.py": METHOD,
    "methods/later.py": "def late():\n    return 1\n",
    "losses/__init__.py": "from propml.losses.one import used\nfrom propml.losses.two import unused\n",
    "losses/one.py": "from propml.deep import bottom\n\n\ndef used():\n    return bottom\n",
    "losses/two.py": "def unused():\n    return 2\n",
    "deep.py": "bottom = 3\n",
    "tools.py": "import numpy\nfrom propml.schema import checked\n\n\ndef helper(value=checked()):\n    if value < 0:\n"
    '        raise ValueError(f"{value} in words")\n    return 4\n',
    "schema.py": "def checked():\n    return 5\n",
    "typing_only.py": "Thing = int\n",
}


@pytest.fixture
def package(tmp_path):
    """A small package, and the function that writes one of its files."""

    def write(name, text):
        path = tmp_path / "propml" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    for name, text in {"__init__.py": "", "methods/__init__.py": "", **FILES}.items():
        write(name, text)
    return tmp_path, write


def test_all_that_a_method_imports_counts_and_nothing_else(package):
    root, _ = package
    found = {name.removeprefix("propml.") for name in with_imports(["propml.methods.ours"], root)}
    assert found == {"methods.ours", "methods.later", "losses.one", "deep", "tools"}


@pytest.mark.parametrize(
    ("file", "before", "after", "changes"),
    [
        ("methods/ours.py", "return used()", "return 2 * used()", True),
        ("methods/later.py", "return 1", "return 11", True),
        ("deep.py", "bottom = 3", "bottom = 33", True),
        ("tools.py", "import numpy", "import scipy", True),
        ("methods/ours.py", '"""Fit."""', '"""Fit, in other words."""', False),
        ("methods/ours.py", '    """What it is."""\n', "", False),
        ("deep.py", "bottom = 3", "# A comment.\nbottom   =   3  # and another", False),
        ("losses/two.py", "return 2", "return 22", False),
        ("typing_only.py", "int", "float", False),
        ("methods/ours.py", "def fit(self):", "def fit(self) -> int:", False),
        ("tools.py", "in words", "in other words", False),
        ("tools.py", "ValueError", "TypeError", True),
        ("schema.py", "return 5", "return 55", False),
    ],
)
def test_what_changes_a_fingerprint(package, file, before, after, changes):
    root, write = package
    first = fingerprint(["propml.methods.ours"], root)
    assert before in FILES[file]
    write(file, FILES[file].replace(before, after))
    assert (fingerprint(["propml.methods.ours"], root) != first) == changes


def test_a_file_may_move(package):
    root, write = package
    first = fingerprint(["propml.methods.ours"], root)
    write("basement.py", FILES["deep.py"])
    write("losses/one.py", FILES["losses/one.py"].replace("propml.deep", "propml.basement"))
    assert fingerprint(["propml.methods.ours"], root) == first


def test_modules_that_are_named_at_run_time_all_count(package):
    root, write = package
    write(
        "engines.py",
        'import importlib\n\n\ndef engine(name):\n    return importlib.import_module(f"propml.losses.{name}")\n',
    )
    assert {"propml.losses.one", "propml.losses.two"} <= with_imports(["propml.engines"], root)


def test_real_methods_are_told_apart_and_none_is_imported():
    code = (
        "import sys\nfrom propml.benchmark.provenance import fingerprint\n"
        "names = ['propml.methods.propml', 'propml.methods.ridge', 'propml.vision.training']\n"
        "print(len({fingerprint([name]) for name in names}), [name for name in names if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "3 []"


def test_which_modules_make_a_cell():
    assert made_by({"method": "ridge"}) == ("propml.methods.ridge",)
    assert made_by({"method": "propml", "selection": "oracle"}) == ("propml.methods.propml", "propml.paper.oracle")
    assert made_by({"method": "extra-trees"}) == ("propml.benchmark.rivals",)
    assert "propml.vision.training" in made_by({"kind": "images"})
    on_features = made_by({"kind": "images", "params": {"method": "ridge"}})
    assert set(on_features) >= {"propml.methods.ridge", "propml.vision.deep_features"}
    assert "propml.vision.training" not in on_features
    assert made_by({"method": "gone"}) == ()


def test_a_run_keeps_commit_and_fingerprint(tmp_path):
    run_experiment(experiment(["Plain"], datasets=("birds",)), tmp_path, verbose=False, compute=fake_cells.compute)
    cells = ResultStore(tmp_path).cells()
    facts = run_provenance()
    for each in cells:
        assert each.fingerprint == fingerprint(["propml.methods.ridge"])
        assert age(each) == "current"
        assert each.commit.startswith(facts["commit"] or f"propml {facts['propml']}")


def test_outside_a_checkout_the_version_stands_for_the_commit(tmp_path):
    store = ResultStore(tmp_path)
    store.add(outcome(cell()), {"run": "r", "commit": None, "propml": "9.1"})
    assert [each.commit for each in store.cells()] == ["propml 9.1"]


@pytest.fixture
def mixed(tmp_path):
    """Two cells of today's code, one of older code, and one from before fingerprints were kept."""
    store = ResultStore(tmp_path / "results")
    facts = {"run": "r", "experiment": "toy", "title": "", "note": ""}
    now = fingerprint(["propml.methods.ridge"])
    kept = [
        ("Plain", "birds", now),
        ("Plain", "scene", now),
        ("Other", "birds", "0123456789abcdef"),
        ("Other", "scene", ""),
    ]
    for method, dataset, mark in kept:
        store.add(replace(outcome(cell(method, dataset)), fingerprint=mark), facts)
    return store


def test_status_of_a_folder_groups_what_is_old_by_method(mixed):
    told = CliRunner().invoke(app, ["status", str(mixed.folder)])
    assert told.exit_code == 0, told.output
    lines = told.stdout.splitlines()
    assert lines[0] == "toy:"
    assert [line.split() for line in lines[2:5]] == [
        ["Plain", "2", "?", "0"],
        ["Other", "2", "?", "0"],
        ["all", "4", "?", "0"],
    ]
    assert "code has changed since: Other (1 cell)" in lines
    assert "unknown age: Other (1 cell)" in lines
    assert "what is missing is not known: give the experiment's .toml file" in told.stdout


def test_status_of_a_folder_counts_what_a_known_experiment_lacks(tmp_path):
    from propml import benchmark

    part = benchmark.load_experiment("quick").narrowed(methods=["Ridge"], noise=[0.5])
    benchmark.run(part, tmp_path, verbose=False, compute=fake_cells.compute)
    lines = CliRunner().invoke(app, ["status", str(tmp_path)]).stdout.splitlines()
    assert ["Ridge", "1", "1", "0"] in [line.split() for line in lines]
    assert not any("changed" in line or "unknown" in line for line in lines)


def test_stores_of_earlier_versions_are_read(mixed):
    path = mixed.folder / "results.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row.pop("commit", None)
        row.pop("fingerprint", None)
        if "block" in row:
            row["block"] = row["block"][0]  # the length alone, as it was
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    cells = ResultStore(mixed.folder).cells()
    assert len(cells) == 4
    assert {age(each) for each in cells} == {"unknown"}

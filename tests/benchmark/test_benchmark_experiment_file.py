"""A file of one's own: what it says is what is run, and a mistake is told in one sentence."""

import re

import pytest

from propml.benchmark.experiment import load_experiment
from propml.file_errors import FileError
from propml.noise import Noise

SMALL = """
title = "Small"
datasets = ["birds", "yeastcc"]
noise = [50, 100.5]
seeds = [0, 7]
folds = 3
stratified = true
metrics = ["one_error", "hamming_loss:paper"]

[methods.Ridge]
method = "ridge"
params = { alpha = 3.0 }

[methods."ProPML, small"]
method = "propml"
params = { hidden = [32, 16], loss = "propml" }
"""


@pytest.fixture
def write(tmp_path):
    """Writes a file of one's own and gives its path."""

    def written(text, name="mine.toml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return written


def test_a_file_of_ones_own(write):
    found = load_experiment(write(SMALL))
    assert (found.name, found.title, found.datasets) == ("mine", "Small", ("birds", "yeastcc"))
    assert found.noise == (Noise("svm", 0.5), Noise("svm", 1.005))
    assert (found.seeds, found.folds, found.stratified) == ((0, 7), 3, True)
    assert found.metrics == ("one_error", "hamming_loss:paper")
    assert [entry.name for entry in found.methods] == ["Ridge", "ProPML, small"]
    assert found.methods[0].params == {"alpha": 3.0}
    assert found.methods[1].params["hidden"] == (32, 16)
    cells = found.cells()
    # birds at two levels, yeastcc as it is; two seeds; two methods
    assert len(cells) == (2 + 1) * 2 * 2
    levels = {("birds", found.noise[0]), ("birds", found.noise[1]), ("yeastcc", None)}
    assert {(cell.dataset, cell.noise) for cell in cells} == levels
    assert all((cell.folds, cell.stratified, cell.metrics) == (3, True, found.metrics) for cell in cells)
    assert load_experiment(str(write(SMALL))) == found


def test_a_method_may_select_otherwise_than_the_rest(write):
    text = SMALL + 'selection = "oracle"\nlams = [0.1, 1]\n'
    entry = load_experiment(write(text)).methods[1]
    assert (entry.selection, entry.lams) == ("oracle", (0.1, 1))
    selections = {cell.method.name: cell.selection for cell in load_experiment(write(text)).cells()}
    assert selections == {"Ridge": "candidates", "ProPML, small": "oracle"}


def test_an_experiment_may_be_an_oracle_but_for_one_method(write):
    text = (
        'selection = "oracle"\n'
        + SMALL.replace('method = "ridge"\nparams = { alpha = 3.0 }', 'method = "pml-ni"')
        + 'selection = "candidates"\n'
    )
    found = load_experiment(write(text))
    assert {cell.method.name: cell.selection for cell in found.cells()} == {
        "Ridge": "oracle",
        "ProPML, small": "candidates",
    }


SEVERAL = """
[corruptions.none]
[corruptions.flips]
noise = [0.2, 0.4]
[corruptions.annotators]
noise = [0.2]
sensitivity = 0.8
n_annotators = 3
"""


def with_several(old="", new=""):
    text = SMALL.replace("noise = [50, 100.5]\n", "").replace("[methods.Ridge]", f"{SEVERAL}\n[methods.Ridge]", 1)
    assert not old or old in text
    return text.replace(old, new, 1)


def test_several_kinds_of_noise(write):
    found = load_experiment(write(with_several()))
    kinds = ["none", "flips 0.2", "flips 0.4", "annotators 0.2"]
    assert [noise.written for noise in found.noise] == kinds
    settings = {cell.noise and str(cell.noise): dict(cell.corruption_settings) for cell in found.cells()}
    assert settings.pop("annotators 0.2") == {"sensitivity": 0.8, "n_annotators": 3}
    assert settings == {kind: {} for kind in (*kinds[:3], None)}
    assert len({cell.key for cell in found.cells()}) == len(found.cells()) == (4 + 1) * 2 * 2
    assert found.narrowed(noise=["flips 0.4"]).noise == (Noise("flips", 0.4, named=True),)
    with pytest.raises(ValueError, match=r"mine has no noise level 'flips 0\.3'; did you mean 'flips"):
        found.narrowed(noise=["flips 0.3"])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[corruptions.none]", "[corruptions.non]", "corruptions.non is not a known corruption; did you mean 'none'?"),
        (
            "[corruptions.none]",
            "[corruptions.none]\nnoise = [1]",
            "corruptions.none.noise is not a known argument of the corruption 'none'",
        ),
        ("noise = [0.2, 0.4]", "", "corruptions.flips.noise is missing; give a list of levels"),
        ("noise = [0.2, 0.4]", "noise = [2]", "corruptions.flips.noise holds 2; 'flips' expects a number between 0"),
        ("sensitivity = 0.8", "", "corruptions.annotators.sensitivity is missing"),
        ("sensitivity", "sensibility", "corruptions.annotators.sensibility is not a known argument"),
        ("folds = 3", "folds = 3\nnoise = [5]", "noise stands beside [corruptions]; give one of the two"),
    ],
)
def test_mistakes_in_several_kinds_of_noise(write, old, new, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        load_experiment(write(with_several(old, new)))


def test_some_of_the_folds(write):
    found = load_experiment(write(SMALL.replace("folds = 3", "folds = 3\ntest_folds = 2")))
    assert {cell.test_folds for cell in found.cells()} == {2}
    # A file that does not ask for it has the keys that it always had.
    assert "test_folds" not in load_experiment(write(SMALL)).cells()[0].configuration()


def test_noise_is_not_needed_where_candidates_are_real(write):
    text = SMALL.replace('"birds", ', "").replace("noise = [50, 100.5]\n", "")
    assert {cell.noise for cell in load_experiment(write(text)).cells()} == {None}


ORACLE = 'selection = "oracle"'
MISTAKES = [
    # (what stands there, what is written instead, what is said)
    ("folds = 3", "fold = 3", "fold is not a known key of an experiment on tables"),
    ("folds = 3", "folds = 1", "folds is 1; a whole number of at least 2"),
    ("folds = 3", "folds = 2.5", "folds is 2.5; a whole number"),
    ("folds = 3", "folds = true", "folds is True; a whole number"),
    ("folds = 3", "rows = 4", "rows is 4; a whole number of at least 5"),
    ("stratified = true", "stratified = 1", "stratified is 1; true or false"),
    ('title = "Small"', "title = 3", "title is 3; a text"),
    (
        '"yeastcc"',
        '"yeastc"',
        "'yeastc', which is not a known dataset of tables, nor a file under [files]; did you mean 'yeastcc'?",
    ),
    ('"yeastcc"', '"voc2007"', "datasets names 'voc2007', which is not a known dataset of tables"),
    ('"yeastcc"', '"birds"', "datasets holds 'birds' twice"),
    ('"yeastcc"', "3", "datasets holds 3; a list of names"),
    ('datasets = ["birds", "yeastcc"]', "", "datasets is missing; give a list of names out of mirflickr"),
    ('datasets = ["birds", "yeastcc"]', "datasets = []", "datasets is []; a list of names was expected, with at least"),
    ('datasets = ["birds", "yeastcc"]', 'datasets = "birds"', "datasets is 'birds'; a list of names"),
    ("100.5", "-1", "noise holds -1; a list of numbers of at least 0"),
    ("100.5", "nan", "noise holds nan; a list of numbers"),
    ("100.5", "50.0", "noise holds 50.0 twice"),
    ("100.5", '"50"', "noise holds '50'; a list of numbers"),
    ("noise = [50, 100.5]", "", "noise is missing; birds has no candidates of its own"),
    ("noise = [50, 100.5]", 'noise = [2]\ncorruption = "flips"', "noise holds 2; 'flips' expects a number between 0"),
    ("noise = [50, 100.5]", 'noise = [1.5]\ncorruption = "count"', "noise holds 1.5; 'count' expects a whole number"),
    (
        "folds = 3",
        'corruption = "flip"',
        "corruption is 'flip', which is not a known corruption; did you mean 'flips'?",
    ),
    ("folds = 3", "corruption = 3", "corruption is 3; a text"),
    ("seeds = [0, 7]", "seeds = [0, 0]", "seeds holds 0 twice"),
    ("seeds = [0, 7]", "seeds = [-1]", "seeds holds -1; a list of whole numbers of at least 0"),
    ("seeds = [0, 7]", "seeds = [0.5]", "seeds holds 0.5; a list of whole numbers"),
    ("seeds = [0, 7]", "seeds = []", "seeds is []"),
    (
        "folds = 3",
        'selection = "orakle"',
        "selection is 'orakle', which is not a known selection; did you mean 'oracle'?",
    ),
    ('"one_error"', '"one_eror"', "metrics names 'one_eror', which is not a known metric; did you mean 'one_error'?"),
    ("hamming_loss:paper", "hamming_loss:papr", "did you mean 'hamming_loss:paper'?"),
    (
        'method = "ridge"',
        'method = "Rigde"',
        "methods.Ridge.method is 'Rigde', which is not a known method; did you mean",
    ),
    ('method = "ridge"', "", "methods.Ridge.method is missing; did you mean 'ridge'?"),
    ('method = "ridge"', "method = 1", "methods.Ridge.method is 1; a text"),
    (
        "alpha = 3.0",
        "alhpa = 3.0",
        "methods.Ridge.params.alhpa is not a known argument of ridge (the runner sets random_state and verbose); "
        "did you mean 'alpha'?",
    ),
    ("alpha = 3.0", "alpha = inf", "methods.Ridge.params.alpha is inf; a finite number"),
    ("alpha = 3.0", "alpha = 2020-01-01", "methods.Ridge.params.alpha is datetime"),
    ("params = { alpha = 3.0 }", "params = 3", "methods.Ridge.params is 3; a table"),
    (
        "params = { alpha = 3.0 }",
        "parms = {}",
        "methods.Ridge.parms is not a known key of a method for tables; did you mean",
    ),
    ("params = { alpha = 3.0 }", 'scaling = "unit"', "methods.Ridge.scaling is 'unit', which is not a known scaling"),
    (
        'loss = "propml"',
        "random_state = 1",
        'methods."ProPML, small".params.random_state is not a known argument of propml (the runner sets',
    ),
    ("params = { alpha = 3.0 }", ORACLE, 'methods.Ridge.selection is "oracle", and ridge picks nothing by true labels'),
    ("params = { alpha = 3.0 }", "lams = [1]", 'methods.Ridge.lams is for propml with selection = "oracle"'),
    ("params = { alpha = 3.0 }", f"{ORACLE}\nlams = [1]", "methods.Ridge.lams is for propml"),
]


@pytest.mark.parametrize(("right", "wrong", "told"), MISTAKES, ids=lambda value: value[:28])
def test_a_mistake_is_one_sentence_with_file_key_and_nearest_name(write, right, wrong, told):
    assert right in SMALL
    if "rows" in wrong:
        wrong = "folds = 5\n" + wrong
    path = write(SMALL.replace(right, wrong, 1))
    with pytest.raises(ValueError) as error:
        load_experiment(path)
    assert str(error.value).startswith(f"{path}: ")
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_oracle_networks_choose_nothing_on_candidates(write):
    for param in ("lam = 0.1", "cv = 3", "forest = true"):
        text = SMALL.replace('loss = "propml"', param) + ORACLE
        with pytest.raises(ValueError, match=rf"params\.{param.split()[0]} says what to do on candidates"):
            load_experiment(write(text))
    load_experiment(write(SMALL.replace('loss = "propml"', "forest = false") + ORACLE))


def test_no_method_at_all_is_told(write):
    text = SMALL[: SMALL.index("[methods")]
    with pytest.raises(ValueError, match=r"methods is empty; give at least one method"):
        load_experiment(write(text))


def test_what_is_no_toml_is_told(write, tmp_path):
    with pytest.raises(ValueError, match=r"mine\.toml is not a readable experiment .*line 2.*; correct it"):
        load_experiment(write("folds = 3\ntitle = \n"))
    (tmp_path / "latin.toml").write_bytes('title = "é"'.encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.toml is not a readable experiment"):
        load_experiment(tmp_path / "latin.toml")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.toml"):
        load_experiment(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    "text", ["x = " + "[" * 9999 + "]" * 9999, "noise = [" + "9" * 400 + "]", "a." * 9999 + "b = 1"]
)
def test_toml_that_no_parser_likes_is_refused_with_its_name(tmp_path, text):
    (tmp_path / "deep.toml").write_text(text)
    with pytest.raises(FileError, match=r"deep\.toml"):
        load_experiment(tmp_path / "deep.toml")

"""`propml datasets`: what people see, and one sentence instead of a stack trace."""

import hashlib
import sys
import threading
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

import propml.cli
from propml.cli.datasets import app
from propml.datasets import REGISTRY, names
from propml.datasets.dataset import Facts

ARFF = b"@relation r\n@attribute x numeric\n@attribute l {0,1}\n@data\n1,0\n2,1\n"
XML = b'<labels><label name="l"/></labels>'


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PROPML_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "100")


def run(*arguments: object):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def enron(tmp_path, monkeypatch):
    """The registry's Enron with two rows, on a server whose files may be changed."""
    site = tmp_path / "site"
    site.mkdir()
    files = []
    for file, content in zip(REGISTRY["enron"].files, (ARFF, XML), strict=True):
        name = file.path.rpartition("/")[2]
        (site / name).write_bytes(content)
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        files.append(replace(file, url=name, checksum=f"git:{blob}"))

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    files = [replace(file, url=f"http://127.0.0.1:{server.server_port}/{file.url}") for file in files]
    facts = (Facts(2, 1, 1, 0.5, rows_without_truth=1),)
    monkeypatch.setitem(REGISTRY, "enron", replace(REGISTRY["enron"], files=tuple(files), facts=facts))
    yield site
    server.shutdown()
    server.server_close()
    thread.join()


def test_list_shows_every_dataset_and_what_is_at_hand(enron, tmp_path):
    result = run("list")
    assert result.exit_code == 0
    lines = {line.split()[0]: line.split() for line in result.output.splitlines()[1:]}
    assert set(lines) == set(names())
    assert lines["yeastbp"][1:] == ["real-world", "6139", "6139", "217", "5.537", "5.925", "-"]
    assert lines["digits-mosaic"][-1] == "yes"
    assert lines["enron"][-1] == "-"
    assert run("fetch", "enron", "--data-dir", tmp_path / "data").exit_code == 0
    here = run("list", "--data-dir", tmp_path / "data").output
    assert next(line for line in here.splitlines() if line.startswith("enron")).split()[-1] == "yes"


def test_fetch_then_show(enron, tmp_path):
    result = run("fetch", "Enron", "--data-dir", tmp_path / "data")
    assert result.exit_code == 0
    assert f"Enron is in {tmp_path / 'data'}" in result.output
    shown = run("show", "enron", "--data-dir", tmp_path / "data")
    assert shown.exit_code == 0
    assert "enron.arff: as published" in shown.output
    assert "rows without a true label" in shown.output
    assert "Everything is as it should be." in shown.output


def test_fetch_says_when_another_copy_is_searched_first(enron, tmp_path, monkeypatch):
    other = tmp_path / "other" / "mulan"
    other.mkdir(parents=True)
    (other / "enron.arff").write_bytes(ARFF + b"3,1\n")
    (other / "enron.xml").write_bytes(XML)
    monkeypatch.setenv("PROPML_DATA", str(tmp_path / "other"))
    monkeypatch.setattr("propml.datasets.locations.os.access", lambda *_: False)
    result = run("fetch", "enron")
    assert result.exit_code == 0
    assert f"Note: {tmp_path / 'other'} is searched first, and holds another copy." in result.output


def test_show_describes_what_is_not_at_hand_and_fails(tmp_path):
    result = run("show", "music-style")
    assert result.exit_code == 1
    assert "6839 rows × 98 features × 10 labels" in result.output
    assert "git:fddd5c39c6da308bb5df8b3bdd48c59c49e2316f" in result.output
    assert isinstance(result.exception, FileNotFoundError)
    assert "run `propml datasets fetch music-style` or set PROPML_DATA" in str(result.exception)
    assert "no published checksum" in run("show", "voc2007").output


def test_show_of_the_embedded_one_and_of_a_known_subset(monkeypatch):
    shown = run("show", "digits mosaic")
    assert shown.exit_code == 0
    assert "Splits: train, test" in shown.output
    entry = REGISTRY["digits-mosaic"]
    subset = replace(entry.facts[0], copy="a toy copy")
    monkeypatch.setitem(REGISTRY, "digits-mosaic", replace(entry, facts=(Facts(9, 256, 10), subset)))
    assert "This copy is a toy copy." in run("show", "digits-mosaic").output


def main(monkeypatch, capsys, *arguments: object) -> tuple[int, str]:
    """The real entry point, with this group as its only one; exit status and standard error."""
    monkeypatch.setattr(propml.cli, "app", app)
    monkeypatch.setattr(sys, "argv", ["propml", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        propml.cli.main()
    return int(stopped.value.code or 0), capsys.readouterr().err


def test_mistakes_become_one_sentence(enron, tmp_path, monkeypatch, capsys):
    data = tmp_path / "data"
    assert main(monkeypatch, capsys, "show", "enronn") == (
        1,
        "error: dataset 'enronn' is not known; did you mean 'enron'?\n",
    )
    (enron / "enron.arff").write_bytes(b"corrupt")
    status, error = main(monkeypatch, capsys, "fetch", "enron", "--data-dir", data)
    assert status == 1
    assert error.startswith("error: http://127.0.0.1")
    assert "nothing was kept" in error
    assert error.count("\n") == 1
    assert [path for path in data.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("arff", "xml", "message"),
    [
        (ARFF[:-3], XML, "has 1 values, the header declares 2 attributes"),
        (ARFF[:-4], XML, "the file is truncated or is another version"),
        (ARFF, XML[:-9], "not a readable XML file"),
        (ARFF, XML.replace(b"</labels>", b'<label name="m"/></labels>'), "of which 1 are not attributes"),
        (ARFF.replace(b"1,0", b"1,1"), XML, "true labels per row is 1, expected 0.5"),
        (b"\x1f\x8b broken", XML, "is not a readable"),
    ],
)
def test_malformed_files_never_show_a_stack_trace(enron, tmp_path, monkeypatch, capsys, arff, xml, message):
    folder = tmp_path / "data" / "mulan"
    folder.mkdir(parents=True)
    (folder / "enron.arff").write_bytes(arff)
    (folder / "enron.xml").write_bytes(xml)
    status, error = main(monkeypatch, capsys, "show", "enron", "--data-dir", tmp_path / "data")
    assert status == 1
    assert message in error
    assert error.count("\n") == 1
    assert "Traceback" not in error


def test_a_mat_file_without_its_keys(tmp_path, monkeypatch, capsys):
    from scipy.io import savemat

    (tmp_path / "pml").mkdir()
    savemat(tmp_path / "pml/YeastMF.mat", {"X": [[1.0]]})
    status, error = main(monkeypatch, capsys, "show", "yeastmf", "--data-dir", tmp_path)
    assert status == 1
    assert "YeastMF.mat holds X; expected the variables data, target and one of partial_labels or" in error
    assert error.count("\n") == 1


def test_without_arguments_there_is_help():
    result = run()
    for command in ("list", "show", "fetch"):
        assert command in result.output

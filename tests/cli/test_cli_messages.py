"""Messages about a file name what their reader can write: options on the command line, arguments in Python."""

import re

import pytest
from command_line import propml, told, write_photos

from propml.tables.files import read_table


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_photos(tmp_path / "photos.csv")
    (tmp_path / "votes.csv").write_text("item,annotator,label\np1,ann,sea\n")
    (tmp_path / "latin.csv").write_bytes("a,tags\n1,café;x\n".encode("latin-1"))
    (tmp_path / "semicolons.csv").write_text("a;tags\n1;x\n")
    (tmp_path / "tabs.csv").write_text("a,tags\n1,x\ty\n2,y\tz\n")
    return tmp_path


MISTAKES = {
    "choose --sep ';' (or --sep none, if every cell is one label)": (
        "photos.csv",
        "--candidates",
        "tags",
        "--sep",
        ",",
    ),
    r"choose --sep '\t' (or": ("tabs.csv", "--candidates", "tags"),
    "choose --delimiter ';'": ("semicolons.csv", "--candidates", "tags"),
    "save it as UTF-8, or give --encoding cp1252": ("latin.csv", "--candidates", "tags"),
    "leave out --encoding": ("photos.csv", "--candidates", "tags", "--encoding", "utf-16"),
    "say with --id which column": ("photos.csv", "--votes", "votes.csv"),
    "name one of --candidates and --label-columns": ("photos.csv", "--candidates", "tags", "--label-columns", "a"),
    "(--candidates), columns of 0 and 1 (--label-columns) or an annotator table (--votes)": ("photos.csv",),
    "leave out --min-votes": ("photos.csv", "--candidates", "tags", "--min-votes", "2"),
    "column 'camera' is 'Canon', expected 0 or 1 or -1": ("photos.csv", "--label-columns", "camera"),
}


@pytest.mark.parametrize("sentence", MISTAKES)
def test_the_command_line_speaks_of_options(here, sentence):
    said = told(propml("fit", *MISTAKES[sentence]))
    assert sentence in said
    assert not re.search(r"\w=['\[]", said)


def test_python_speaks_of_arguments(here):
    with pytest.raises(ValueError, match=r"choose sep=';' \(or sep='', if every cell is one label\)"):
        read_table("photos.csv", candidates="tags", sep=",")
    told(propml("fit", "photos.csv", "--candidates", "tags", "--sep", ","))
    with pytest.raises(ValueError, match="choose delimiter=';'"):
        read_table("semicolons.csv", candidates="tags")


def test_a_label_that_training_never_saw(here):
    assert propml("fit", "photos.csv", "--candidates", "tags", "--features", "a,b", "--method", "ridge").code == 0
    assert "give --ignore-unseen" in told(propml("evaluate", "model", "photos.csv", "--truth", "camera"))
    assert "(--truth) or columns of 0 and 1 (--label-columns)" in told(propml("evaluate", "model", "photos.csv"))

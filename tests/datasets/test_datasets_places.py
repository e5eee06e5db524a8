"""Where datasets are looked for, and what their checksums are."""

import gzip
import hashlib
import os
import subprocess
import sys

import pytest

from propml.datasets.locations import checksum_of, data_dirs, existing_file, matches, writable_data_dir


def test_search_order_is_argument_then_environment_then_cache(tmp_path, monkeypatch, own_cache):
    monkeypatch.setenv("PROPML_DATA", str(tmp_path / "env"))
    assert data_dirs(tmp_path / "arg") == [tmp_path / "arg", tmp_path / "env", own_cache]
    assert data_dirs() == [tmp_path / "env", own_cache]
    assert data_dirs(tmp_path / "env") == [tmp_path / "env", own_cache]
    monkeypatch.delenv("PROPML_DATA")
    assert data_dirs() == [own_cache]


def test_home_is_expanded(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_dirs("~/sets")[0] == tmp_path / "sets"


def test_downloads_go_where_one_may_write(tmp_path, monkeypatch, own_cache):
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("PROPML_DATA", str(data))
    assert writable_data_dir() == data
    assert writable_data_dir(tmp_path / "arg") == tmp_path / "arg"
    monkeypatch.setattr(os, "access", lambda path, mode: path != data)
    assert writable_data_dir() == own_cache


def test_arff_is_found_compressed_and_other_files_are_not(tmp_path):
    (tmp_path / "a.arff.gz").touch()
    (tmp_path / "a.xml.gz").touch()
    assert existing_file(tmp_path, "a.arff") == tmp_path / "a.arff.gz"
    (tmp_path / "a.arff").touch()
    assert existing_file(tmp_path, "a.arff") == tmp_path / "a.arff"
    assert existing_file(tmp_path, "a.xml") is None


def test_git_blob_id_is_what_git_says(tmp_path):
    path = tmp_path / "hello.txt"
    path.write_bytes(b"hello world\n")
    # printf 'hello world\n' | git hash-object --stdin
    assert checksum_of(path, "git") == "git:3b18e512dba79e4c8300dd08aeb37f8e728b8dad"
    assert checksum_of(path, "sha256") == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    assert matches(path, "git:3b18e512dba79e4c8300dd08aeb37f8e728b8dad")
    assert not matches(path, "git:0000000000000000000000000000000000000000")


def test_a_compressed_file_has_the_checksum_of_its_content(tmp_path):
    path = tmp_path / "hello.txt.gz"
    path.write_bytes(gzip.compress(b"hello world\n"))
    assert matches(path, "git:3b18e512dba79e4c8300dd08aeb37f8e728b8dad")
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ValueError, match="is not a readable"):
        checksum_of(path, "git")


def test_importing_datasets_imports_no_optional_package():
    heavy = "pandas,polars,pyarrow,matplotlib,timm,torchvision"
    code = (
        f"import sys, propml.datasets; sys.exit(','.join(m for m in '{heavy}'.split(',') if m in sys.modules) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")

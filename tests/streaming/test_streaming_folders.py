"""Folders that are streamed: their parts, URLs, and the sentence on each that cannot be read."""

import os
from pathlib import Path

import logs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from propml.file_errors import FileError
from propml.streaming import stream_audit
from propml.streaming.folders import BatchTable, Folder, look_into, row_contents, tables_of
from propml.streaming.judging import learn_columns, read_features
from propml.streaming.sample import draw_sample
from propml.streaming.work import Job, begin, do_parts, part_name, workers
from propml.tables.sources import open_table


def audit(data, out, **reading):
    return stream_audit(str(data), str(out), reading=logs.READING | {"ignore": ["truth"]} | reading, params=logs.SMALL)


def numbers(n, start=0):
    return pa.table({"x": np.arange(start, start + n)})


@pytest.mark.parametrize(
    ("groups", "parts"),
    [([10], 1), ([200_000, 60_000, 60_000], 2), ([300_000, 10], 2), ([0, 10, 0], 1)],
)
def test_parts_cover_every_row_once_and_never_cut_a_row_group(tmp_path, groups, parts):
    with pq.ParquetWriter(tmp_path / "a.parquet", numbers(0).schema) as write:
        for size in groups:
            write.write_table(numbers(size), row_group_size=max(size, 1))
    folder = Folder(str(tmp_path))
    _, found, _ = look_into(folder)
    assert len(found) == parts
    assert sum(part.rows for part in found) == sum(groups)
    rows = [len(table.cells("x")) for part in found for table in tables_of(folder, part, ["x"])]
    assert sum(rows) == sum(groups)
    assert [part.start for part in found] == [0, *np.cumsum([part.rows for part in found])[:-1]]


def test_a_fingerprint_tells_other_content_and_other_names(tmp_path):
    pq.write_table(numbers(10), tmp_path / "a.parquet")
    first = look_into(Folder(str(tmp_path)))[2]
    assert look_into(Folder(str(tmp_path)))[2] == first
    pq.write_table(numbers(10, start=1), tmp_path / "a.parquet")
    second = look_into(Folder(str(tmp_path)))[2]
    (tmp_path / "a.parquet").rename(tmp_path / "b.parquet")
    assert len({first, second, look_into(Folder(str(tmp_path)))[2]}) == 3


def test_folders_inside_are_read_and_what_is_no_table_is_not(tmp_path):
    for name in ("day=1/a.parquet", "day=2/b.pq", "_temporary/c.parquet", ".hidden.parquet", "readme.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(numbers(3), tmp_path / name)
    assert [part.file for part in look_into(Folder(str(tmp_path)))[1]] == ["day=1/a.parquet", "day=2/b.pq"]


def test_a_cell_does_not_depend_on_the_rows_beside_it():
    vectors = pa.array([[1.1, 2.2], None, [3.3, 4.4]])
    table = pa.table({"code": pa.array([7, None, 8]), "vector": vectors})
    whole, alone = (BatchTable(part.to_batches()[0], Path("t")) for part in (table, table.slice(0, 1)))
    assert whole.cells("code")[0] == alone.cells("code")[0] == 7
    assert str(whole.cells("code")[0]) == str(alone.cells("code")[0])
    assert list(np.float32(whole.cells("vector")[0])) == list(alone.cells("vector")[0])
    assert next(iter(whole.contents(["code", "vector"]))) == next(iter(alone.contents(["code", "vector"])))


def test_a_file_that_is_not_finished_is_not_there(tmp_path):
    for place in (str(tmp_path / "here"), f"file://{tmp_path}/there"):
        folder = Folder(place)
        folder.write("a/done.txt", b"done")

        def fail(folder=folder):
            with folder.writing("a/half.txt") as file:
                file.write(b"half")
                raise RuntimeError("stopped")

        with pytest.raises(RuntimeError, match="stopped"):
            fail()
        assert folder.names() == ["a/done.txt"]
        assert folder.read("a/done.txt") == b"done"
    assert {path.name for path in tmp_path.rglob("*.*")} == {"done.txt"}


def test_a_url_that_only_fsspec_knows():
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec")
    folder = Folder("memory://streamed/logs")
    with folder.writing("a.parquet") as file:
        pq.write_table(numbers(5), file)
    assert look_into(folder)[1][0].rows == 5
    assert pq.read_table(pa.BufferReader(folder.read("a.parquet"))) == numbers(5)
    fsspec.filesystem("memory").rm("/streamed", recursive=True)
    with pytest.raises(FileError, match="give a folder that pyarrow or fsspec can open"):
        Folder("nonsense://bucket/logs")


def test_an_audit_from_and_to_a_url(tmp_path):
    log = logs.write_log(tmp_path / "log", logs.tag_log(120), files=2)
    here = audit(log, tmp_path / "here")
    there = audit(f"file://{log}", f"file://{tmp_path}/there")
    assert here.counts == there.counts
    assert logs.rows_in(tmp_path / "here" / "verdicts") == logs.rows_in(tmp_path / "there" / "verdicts")


def test_every_folder_that_cannot_be_streamed_is_told_in_a_sentence(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty holds no Parquet file \(.parquet, .pq\); name a folder that does"):
        audit(tmp_path / "empty", tmp_path / "out")
    with pytest.raises(NotADirectoryError, match="nowhere does not exist; stream reads a folder of Parquet files"):
        audit(tmp_path / "nowhere", tmp_path / "out")
    log = Path(logs.write_log(tmp_path / "log", logs.tag_log(60), files=2))
    with pytest.raises(NotADirectoryError, match="is a file; stream reads a folder"):
        audit(log / "log-0.parquet", tmp_path / "out")
    with pytest.raises(ValueError, match="has no column 'labels'; it has 'item', 'pixel 00'"):
        audit(log, tmp_path / "out", candidates="labels")
    with pytest.raises(ValueError, match="has no column 'name'"):
        audit(log, tmp_path / "out", id_column="name")
    for name, value in {"votes": "votes.csv", "embed": "minilm", "image": "path", "xml": "a.xml"}.items():
        with pytest.raises(ValueError, match=f"{name} does not go with stream"):
            audit(log, tmp_path / "out", **{name: value})
    with pytest.raises(ValueError, match="a stream is of Parquet files, and 'csv' was asked for"):
        audit(log, tmp_path / "out", file_format="csv")
    assert not (tmp_path / "out").exists()
    no_rows = logs.tag_log(60).slice(0, 0)
    pq.write_table(no_rows, tmp_path / "empty" / "a.parquet")
    with pytest.raises(ValueError, match="empty has no rows"):
        audit(tmp_path / "empty", tmp_path / "out")


def test_files_with_other_columns_are_named(tmp_path):
    table = logs.tag_log(60)
    for name, other, told in (
        ("lacks", table.drop_columns(["colour"]), "only one of them has 'colour: string'"),
        ("more", table.append_column("size", table["item"]), "only one of them has 'size: string'"),
        (
            "kind",
            table.set_column(0, "item", pa.array(range(60))),
            "only one of them has 'item: int64', 'item: string'",
        ),
        ("order", table.select(table.column_names[::-1]), "in another order"),
    ):
        folder = Path(logs.write_log(tmp_path / name, table))
        pq.write_table(other, folder / "odd.parquet")
        with pytest.raises(ValueError, match=f"odd.parquet has other columns than log-0.parquet: {told}"):
            audit(folder, tmp_path / "out")


def test_a_damaged_file_is_named_and_the_rest_is_kept(tmp_path):
    log, out = Path(logs.write_log(tmp_path / "log", logs.tag_log(120), files=3)), tmp_path / "out"
    whole = (log / "log-1.parquet").read_bytes()
    (log / "log-1.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileError, match=r"log-1.parquet is not a readable Parquet file .* it may be truncated"):
        audit(log, out)
    # The footer is whole, and the pages before it are not: this is noticed when the part is read.
    tags = next(
        group.column(j)
        for group in [pq.read_metadata(log / "log-0.parquet").row_group(0)]
        for j in range(group.num_columns)
        if group.column(j).path_in_schema == "tags"
    )
    start, size = tags.dictionary_page_offset or tags.data_page_offset, tags.total_compressed_size
    (log / "log-1.parquet").write_bytes(whole[:start] + b"\xff" * size + whole[start + size :])
    with pytest.raises(FileError, match=r"log-1\.parquet"):
        audit(log, out)
    assert (out / "counts" / "part-00000.json").exists()
    assert not (out / "counts" / "part-00001.json").exists()
    (log / "log-1.parquet").write_bytes(whole)
    audit(log, out)
    assert len(list((out / "verdicts").iterdir())) == 3


def test_rows_without_candidates_are_not_judged_and_stay(tmp_path):
    table = logs.tag_log(120)
    tags = [None if i % 4 == 0 or i >= 80 else tag for i, tag in enumerate(table["tags"].to_pylist())]
    place = table.schema.get_field_index("tags")
    log = logs.write_log(tmp_path / "log", table.set_column(place, "tags", pa.array(tags)), files=3)
    found = audit(log, tmp_path / "out")
    assert "60 rows have no candidate label: they are not judged, and stay as they are" in found.notes
    cleaned = pq.read_table(tmp_path / "out" / "cleaned")
    assert [tag is None for tag in cleaned["tags"].to_pylist()] == [tag is None for tag in tags]
    nothing = table.set_column(place, "tags", pa.nulls(120, pa.string()))
    with pytest.raises(ValueError, match="no row has a candidate label, so nothing is left to learn from"):
        audit(logs.write_log(tmp_path / "bare", nothing), tmp_path / "other")


def test_an_empty_identifier_is_named(tmp_path):
    table = logs.tag_log(60)
    items = [None if i == 45 else f"photo {i}" for i in range(60)]
    log = logs.write_log(tmp_path / "log", table.set_column(0, "item", pa.array(items)), files=2)
    with pytest.raises(ValueError, match=r"log-1.parquet: row 15, column 'item' is empty"):
        audit(log, tmp_path / "out")


def fails(job, number):
    raise ValueError(f"part {number} cannot be done")


def square(job, number):
    Folder(job.out).write(part_name("squares", number), str(number**2).encode())


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_an_error_of_a_worker_is_the_one_sentence_that_it_would_be_here(tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="needs propml[cluster]")
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}")
    job = Job("", str(tmp_path), (), None, (), 0, None)
    for address in (None, "local"):
        with workers(address) as run:
            with pytest.raises(ValueError, match=r"^part 0 cannot be done$"):
                do_parts(run, fails, job, "failures", 1)
            do_parts(run, square, job, "squares", 5)
    assert (tmp_path / "squares" / "part-00004.parquet").read_text() == "16"


def test_features_of_a_row_do_not_depend_on_the_batch_whatever_the_column(tmp_path):
    table = logs.tag_log(120).select(["item", "colour", "tags"])
    others = {
        "colour": table["colour"].combine_chunks().dictionary_encode(),
        "when": pa.array(np.datetime64("2024-01-01") + np.arange(120)),
        "code": pa.array([None if i % 7 == 0 else i % 4 for i in range(120)]),
        "flag": pa.array([None if i % 5 == 0 else i % 2 == 0 for i in range(120)]),
        "vector": pa.array([None if i == 3 else [i / 3, 2.0 * (i % 5)] for i in range(120)]),
        "text": pa.array([f"some words on photo number {i % 13}, and more: {i}" for i in range(120)]),
    }
    for name, column in others.items():
        table = table.drop_columns([name] if name in table.column_names else []).append_column(name, column)
    log = logs.write_log(tmp_path / "log", table, files=3, seed=1)
    settings = {"seed": 0, "categorical": ["code"]}
    job = begin("audit", log, str(tmp_path / "out"), reading=logs.READING | {"text": "text"}, settings=settings)
    with workers(None) as run:
        draw_sample(run, job, None)
        do_parts(run, learn_columns, job, "features", 1)
    features = read_features(job)
    kinds = {treatment.name: treatment.kind for treatment in features.features.treatments}
    assert kinds == {"colour": "category", "when": "number", "code": "category", "flag": "number",
                     "vector": "vector", "text": "text"}  # fmt: skip
    (whole,) = table.to_batches()
    X, _ = features.apply(BatchTable(whole, Path("t")), None, {})
    for start, size in ((0, 1), (1, 2), (3, 1), (5, 50), (60, 60)):
        part, _ = features.apply(BatchTable(whole.slice(start, size), Path("t")), None, {})
        assert list(row_contents(part)) == list(row_contents(X[start : start + size]))


def test_what_is_written_never_lies_in_what_is_read(tmp_path):
    log = logs.write_log(tmp_path / "log", logs.tag_log(60))
    with pytest.raises(ValueError, match="where what is written would be read as data; write to another folder"):
        audit(log, f"{log}/audit")
    assert sorted(path.name for path in Path(log).iterdir()) == ["log-0.parquet"]


def test_a_folder_that_is_too_large_for_memory_is_told_of_the_stream(tmp_path, monkeypatch):
    log = logs.write_log(tmp_path / "log", logs.tag_log(60))
    monkeypatch.setenv("PROPML_UNPACK_GIB", "0.00001")
    with pytest.raises(FileError, match=r"are allowed.*; or read the folder of it in parts, with stream=True"):
        open_table(log)

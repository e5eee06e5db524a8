"""JSON, JSONL, Excel, Feather, folders of Parquet and saved datasets: in, and out again in the same format."""

import gzip
import json
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from propml.file_errors import FileError
from propml.tables import open_table, read_dataset, read_table, write_cleaned
from propml.tables.features import Features, learn_features
from propml.tables.sources import write_rows
from propml.targets import Candidates

ROWS = [
    {"id": 7, "meta": {"tags": ["beach", "sea"], "size": 1.5}, "text": "a dog – at sea"},
    {"id": 8, "meta": {"tags": ["city"], "size": 2}, "text": "a  street"},
    {"id": 9, "meta": {"tags": []}, "text": "nothing"},
]
LINES = '{"id":7, "tags":["beach","sea"],"x":1.50}\n\n{"id":8,"tags":["city"],"x":2}\n{"id":9,"x":3, "tags":null}\n'


def dropped(table, *pairs):
    matrix = table.candidates.to_matrix()
    for item, name in pairs:
        matrix[table.item_ids.index(item), table.candidates.labels.index(name)] = 0
    return Candidates.from_matrix(matrix, table.candidates.labels, empty="ignore")


def arrow_columns():
    return pa.table({"x": [1.0, 2.0, 3.0], "tags": [["beach", "sea"], ["city"], ["sea"]], "k": ["a", "b", "c"]})


# -- JSON ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [ROWS, {"version": 2, "items": ROWS}])
def test_nested_json_is_read_by_path_and_written_back(tmp_path, whole):
    path = tmp_path / "d.json"
    path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    table = read_table(path, candidates="meta.tags", id_column="id")
    assert table.candidates.to_lists() == [["beach", "sea"], ["city"]]
    assert table.feature_columns == ("meta.size", "text")
    write_cleaned(table, dropped(table, ("7", "sea")), tmp_path / "c.json")
    expected = json.loads(path.read_text())
    rows = expected if isinstance(whole, list) else expected["items"]
    rows[0]["meta"]["tags"] = ["beach"]
    assert json.loads((tmp_path / "c.json").read_text()) == expected
    write_cleaned(table, table.candidates, tmp_path / "same.json")
    assert (tmp_path / "same.json").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("packed", [False, True])
def test_lines_whose_labels_stay_are_the_same_to_the_character(tmp_path, packed):
    path = tmp_path / ("d.jsonl.gz" if packed else "d.jsonl")
    path.write_bytes(gzip.compress(LINES.encode()) if packed else LINES.encode())
    table = read_table(path, candidates="tags", id_column="id")
    assert table.suffix == (".jsonl.gz" if packed else ".jsonl")
    write_cleaned(table, dropped(table, ("7", "beach")), tmp_path / "c")
    made = (tmp_path / "c").read_bytes()
    lines = (gzip.decompress(made) if packed else made).decode().splitlines()
    assert json.loads(lines[0]) == {"id": 7, "tags": ["sea"], "x": 1.5}
    assert lines[1:] == LINES.splitlines()[2:]


def test_votes_in_json_lines_with_identifiers_that_are_numbers(tmp_path):
    (tmp_path / "d.jsonl").write_text(LINES)
    votes = [{"item": i, "annotator": who, "label": label} for i, who, label in
             [(7, "ann", "sea"), (7, "bob", "sky"), (8, "ann", "sea")]]  # fmt: skip
    (tmp_path / "v.jsonl").write_text("\n".join(map(json.dumps, votes)))
    table = read_table(tmp_path / "d.jsonl", id_column="id", votes=tmp_path / "v.jsonl", ignore="tags")
    matrix = table.candidates.to_matrix()
    matrix[0] = [0, 1]
    matrix[1] = [1, 1]
    cleaned = Candidates.from_matrix(matrix, table.candidates.labels)
    write_cleaned(table, cleaned, tmp_path / "c.jsonl")
    made = [json.loads(line) for line in (tmp_path / "c.jsonl").read_text().splitlines()]
    assert made == [*votes[1:], {"item": 8, "annotator": "propml audit", "label": "sky"}]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("d.json", '[{"a": 1}', "not a readable JSON file"),
        ("d.json", "[1, 2]", r"row 0 is 1, expected an object"),
        ("d.json", "[]", "has no rows"),
        ("d.json", '{"a": 1, "b": 2}\n', "column 'tags'"),
        ("d.jsonl", '{"a": 1}\n{"a": \n', "line 2 is not valid JSON"),
        ("d.jsonl", '{"a": {"b": 1}}\n{"a.b": 2}\n', "'a.b' is the name of a value and the path to another"),
        ("d.jsonl", '{"tags": [{"name": "x"}]}\n', "expected a list of label names"),
        ("d.json", "[" * 100_000, "not a readable JSON file"),
    ],
)
def test_json_that_is_no_table_is_told(tmp_path, name, text, told):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=told) as caught:
        read_table(tmp_path / name, candidates="tags")
    assert name in str(caught.value)


# -- Excel ---------------------------------------------------------------------------------------------------------


def workbook(path, rows):
    openpyxl = pytest.importorskip("openpyxl", reason="needs propml[formats]")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.create_sheet("notes")["A1"] = "keep me"
    book.save(path)
    return openpyxl


def test_a_workbook_keeps_its_formulas_and_other_sheets(tmp_path):
    path = tmp_path / "d.xlsx"
    rows = [["id", "size", "tags", "day", "twice"], ["a", 1.5, "sea;sky", date(2024, 1, 2), "=B2*2"], [None] * 5,
            ["b", 2, "sky; =SUM(1)", None, "=B4*2"]]  # fmt: skip
    openpyxl = workbook(path, rows)
    table = read_table(path, candidates="tags", id_column="id", ignore="twice")
    assert table.candidates.to_lists() == [["sea", "sky"], ["=SUM(1)", "sky"]]
    write_cleaned(table, dropped(table, ("a", "sky"), ("b", "sky")), tmp_path / "c.xlsx")
    made = openpyxl.load_workbook(tmp_path / "c.xlsx")
    sheet = made.worksheets[0]
    assert [sheet["C2"].value, sheet["C4"].value, sheet["E4"].value] == ["sea", "=SUM(1)", "=B4*2"]
    assert sheet["C4"].data_type == "s"  # text, which no spreadsheet computes
    assert made["notes"]["A1"].value == "keep me"
    assert open_table(tmp_path / "c.xlsx").where(1, "tags").endswith("row 1 (line 4), column 'tags'")


def test_a_workbook_without_rows_and_a_damaged_one_are_told(tmp_path):
    workbook(tmp_path / "d.xlsx", [["id", "tags"]])
    with pytest.raises(FileError, match=r"d\.xlsx has a header and no rows"):
        read_table(tmp_path / "d.xlsx", candidates="tags")
    (tmp_path / "e.xlsx").write_bytes((tmp_path / "d.xlsx").read_bytes()[:300])
    with pytest.raises(FileError, match=r"e\.xlsx is not a readable xlsx file"):
        read_table(tmp_path / "e.xlsx", candidates="tags")


# -- Arrow ---------------------------------------------------------------------------------------------------------


def test_feather_comes_back_as_feather(tmp_path):
    pyarrow.feather.write_feather(arrow_columns(), tmp_path / "d.feather")
    table = read_table(tmp_path / "d.feather", candidates="tags")
    write_cleaned(table, dropped(table, ("0", "sea")), tmp_path / "c.feather")
    made = pyarrow.feather.read_table(tmp_path / "c.feather")
    assert made.schema == arrow_columns().schema
    assert made["tags"].to_pylist() == [["beach"], ["city"], ["sea"]]


def test_a_folder_of_parquet_files_is_one_table(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for part in (0, 1):
        pq.write_table(arrow_columns().slice(part * 2, 2), folder / f"part-{part}.parquet")
    (folder / "_SUCCESS").write_text("")
    table = read_table(folder, candidates="tags")
    assert (table.source.n_rows, table.suffix) == (3, ".parquet")
    assert learn_features(table).X.shape[0] == 3
    write_cleaned(table, dropped(table, ("0", "beach")), tmp_path / "c.parquet")
    assert pq.read_table(tmp_path / "c.parquet")["tags"].to_pylist() == [["sea"], ["city"], ["sea"]]
    pq.write_table(pa.table({"x": [1]}), folder / "part-2.parquet")
    with pytest.raises(ValueError, match=r"part-2\.parquet has other columns than part-0\.parquet"):
        read_table(folder, candidates="tags")


def test_the_folder_that_one_stands_in_takes_votes(tmp_path, monkeypatch):
    folder = tmp_path / "parts"
    folder.mkdir()
    pq.write_table(arrow_columns(), folder / "part-0.parquet")
    (tmp_path / "v.csv").write_text("item,annotator,label\na,ann,sea\nb,ann,sky\n")
    monkeypatch.chdir(folder)
    table = read_table(".", id_column="k", votes=tmp_path / "v.csv", ignore="tags")
    assert table.candidates.to_lists() == [["sea"], ["sky"]]


def saved_dataset(folder):
    """A folder as ``datasets.Dataset.save_to_disk`` writes it: a stream of batches, and class labels as numbers."""
    names = ["joy", "fear", "anger"]
    features = {"labels": {"feature": {"names": names, "_type": "ClassLabel"}, "_type": "List"}}
    schema = pa.schema(
        [("text", pa.string()), ("labels", pa.list_(pa.int64()))],
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    folder.mkdir()
    with pyarrow.ipc.new_stream(folder / "data-00000-of-00001.arrow", schema) as file:
        file.write_table(pa.table({"text": ["so good", "oh no", "oh"], "labels": [[0, 1], [1], [2, 0]]}, schema=schema))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    return folder


def test_a_saved_dataset_names_its_classes_and_keeps_their_numbers(tmp_path):
    table = read_table(saved_dataset(tmp_path / "ds"), candidates="labels")
    assert table.candidates.to_lists() == [["fear", "joy"], ["fear"], ["anger", "joy"]]
    path = write_cleaned(table, dropped(table, ("2", "joy")), tmp_path / f"c{table.suffix}")
    made = pyarrow.ipc.open_stream(path.read_bytes()).read_all()
    assert made["labels"].to_pylist() == [[0, 1], [1], [2]]
    assert b"huggingface" in made.schema.metadata
    datasets = pytest.importorskip("datasets.arrow_dataset", reason="needs Hugging Face datasets")
    again = datasets.Dataset.from_file(str(path))
    assert again.features["labels"].feature.names == ["joy", "fear", "anger"]
    assert read_table(again, candidates="labels").candidates.to_lists() == [["fear", "joy"], ["fear"], ["anger"]]


def test_a_folder_of_splits_and_one_without_tables_are_told(tmp_path):
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(ValueError, match="holds the splits train, test; name the folder of one"):
        open_table(tmp_path)
    (tmp_path / "dataset_dict.json").unlink()
    with pytest.raises(ValueError, match="a folder without a Parquet"):
        open_table(tmp_path)


def test_a_class_that_the_file_does_not_name_is_told(tmp_path):
    features = {"info": {"features": {"y": {"_type": "ClassLabel", "names": ["no"]}}}}
    made = pa.table({"y": [0, 3]}).replace_schema_metadata({"huggingface": json.dumps(features)})
    pq.write_table(made, tmp_path / "d.parquet")
    with pytest.raises(ValueError, match=r"d\.parquet.*class 3 is none of the 1 classes"):
        open_table(tmp_path / "d.parquet").cells("y")


# -- what a file is, and new files ---------------------------------------------------------------------------------


def test_the_content_tells_what_the_name_does_not(tmp_path):
    for name, write in {
        "a": lambda path: pq.write_table(arrow_columns(), path),
        "b": lambda path: pyarrow.feather.write_feather(arrow_columns(), path),
        "c": lambda path: path.write_text(json.dumps(arrow_columns().to_pylist())),
        "d": lambda path: path.write_text("x,tags\n1,a\n2,b\n"),
        "e.export": lambda path: path.write_text("x\ttags\n1\ta\n2\tb\n"),
    }.items():
        write(tmp_path / name)
        assert {"x", "tags"} <= set(open_table(tmp_path / name).names)
    (tmp_path / "f.csv").write_text(LINES)
    assert open_table(tmp_path / "f.csv", file_format="jsonl").names == ("id", "tags", "x")


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".json", ".jsonl", ".parquet", ".feather", ".xlsx"])
def test_new_tables_are_read_back(tmp_path, ending, monkeypatch):
    if ending == ".xlsx":
        pytest.importorskip("openpyxl", reason="needs propml[formats]")
    monkeypatch.setattr("propml.tables.sources.BLOCK_ROWS", 2)
    path = tmp_path / f"p{ending}"
    rows = [["a", [], 0.25], ["b", [], 0.5], ["=c", ["sea", "sky"], 0.75]]
    write_rows(path, ["id", "predicted", "p"], iter(rows))
    table = open_table(path)
    assert [str(cell) for cell in table.cells("id")] == ["a", "b", "=c"]
    assert np.asarray(table.cells("p"), dtype=float).tolist() == [0.25, 0.5, 0.75]
    assert read_table(path, candidates="predicted", features="p").candidates.to_lists() == [["sea", "sky"]]


def test_numbers_of_any_format_are_a_dataset(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text('{"x": 1, "v": 2.5, "y": ["a"]}\n{"x": 2, "v": 3, "y": ["a", "b"]}\n')
    made = read_dataset(path, candidates="y")
    assert made.X.tolist() == [[1, 2.5], [2, 3]]
    learned = Features.learn(open_table(path), ["x", "v"])
    assert learned.X.shape == (2, 2)

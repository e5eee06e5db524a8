"""Columns that hold the answers are named before they are learned from; honest columns are not."""

import csv

import numpy as np
import pytest

from propml.tables import learn_features, read_table

LABELS = ("beach", "city", "sea")


def noted(folder, header, rows, **how):
    """The notes on a table in which three labels depend a little on two numbers."""
    rng = np.random.default_rng(0)
    true = [set(rng.choice(LABELS, rng.integers(1, 3), replace=False)) for _ in range(rows)]
    given = [own | ({LABELS[rng.integers(3)]} if rng.random() < 0.4 else set()) for own in true]
    made = [header(own, among, rng) for own, among in zip(true, given, strict=True)]
    with (folder / "d.csv").open("w", newline="") as file:
        write = csv.DictWriter(file, ["a", "b", *made[0], "tags"])
        write.writeheader()
        for own, cells in zip(given, made, strict=True):
            about = ("beach" in own) + rng.normal()
            write.writerow({"a": f"{about:.3f}", "b": f"{rng.normal():.3f}", **cells, "tags": ";".join(sorted(own))})
    table = read_table(folder / "d.csv", candidates="tags", **how)
    learn_features(table)
    return table.notes


LEFT_OVER = {
    "names": lambda own, among, rng: {"checked": ";".join(sorted(own))},
    "lists": lambda own, among, rng: {"checked": str(sorted(own))},
    "names with others": lambda own, among, rng: {"checked": ", ".join(["Beach" if n == "beach" else n for n in own])},
    "first": lambda own, among, rng: {"checked": sorted(own)[0]},
    "flag": lambda own, among, rng: {"true_sea": int("sea" in own)},
    "word": lambda own, among, rng: {"is sea": "yes" if "sea" in own else "no"},
    "number": lambda own, among, rng: {"votes": ("sea" in among) * 2 + rng.random()},
    "code": lambda own, among, rng: {"group": "x1" if "sea" in among else rng.choice(["x2", "x3"])},
}


@pytest.mark.parametrize("kind", LEFT_OVER)
def test_a_column_of_the_answers_is_named(tmp_path, kind):
    (note,) = noted(tmp_path, LEFT_OVER[kind], 200)
    name = {"flag": "true_sea", "word": "is sea", "number": "votes", "code": "group"}.get(kind, "checked")
    assert note.startswith(f"column {name!r} ")
    assert f"leave it out with ignore=[{name!r}]" in note


@pytest.mark.parametrize("rows", [20, 200])
def test_honest_columns_are_not_named(tmp_path, rows):
    def honest(own, among, rng):
        return {
            "near": f"{('sea' in own) + 0.7 * rng.normal():.3f}",
            "camera": ("Canon", "Nikon")[rng.integers(2)],
            "flash": int(rng.random() < 0.5),
            "caption": f"we saw the {sorted(own)[0] if rng.random() < 0.6 else 'sun'} on day {rng.integers(99)}",
        }

    assert noted(tmp_path, honest, rows) == []


def test_a_perfect_column_of_a_small_table_proves_nothing(tmp_path):
    assert noted(tmp_path, lambda own, among, rng: {"x": ("sea" in among) + rng.random()}, 40) == []


def test_a_column_that_is_not_learned_from_is_not_named(tmp_path):
    assert noted(tmp_path, LEFT_OVER["names"], 200, ignore="checked") == []


def test_labels_beside_votes(tmp_path):
    with (tmp_path / "votes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["item", "annotator", "label"], *([i, "ann", LABELS[i % 3]] for i in range(90))])
    lines = "".join(f"{i},{i * i % 31},{LABELS[i % 3]}|{LABELS[(i + 1) % 3]}\n" for i in range(90))
    (tmp_path / "d.csv").write_text("id,x,tags\n" + lines)
    table = read_table(tmp_path / "d.csv", votes=tmp_path / "votes.csv", id_column="id")
    learn_features(table)
    assert [note.split(" ")[:3] for note in table.notes] == [["column", "'tags'", "names"]]


def test_classes_by_number(tmp_path):
    rng = np.random.default_rng(0)
    true = rng.integers(5, size=100)
    rows = [f"{rng.normal():.2f},{t},{';'.join(map(str, sorted({t, rng.integers(5)})))}\n" for t in true]
    (tmp_path / "d.csv").write_text("x,y,tags\n" + "".join(rows))
    table = read_table(tmp_path / "d.csv", candidates="tags")
    learn_features(table)
    assert [note.split(",")[0] for note in table.notes] == ["column 'y' names a candidate of nearly every row"]
    shuffled = [f"{row.split(',')[0]},{rng.integers(5)},{row.split(',')[2]}" for row in rows]
    (tmp_path / "d.csv").write_text("x,y,tags\n" + "".join(shuffled))
    table = read_table(tmp_path / "d.csv", candidates="tags")
    learn_features(table)
    assert table.notes == []


def test_many_such_columns_are_one_note_more(tmp_path):
    def many(own, among, rng):
        return {f"copy {j}": ("sea" in among) + rng.random() for j in range(8)}

    notes = noted(tmp_path, many, 200)
    assert len(notes) == 6
    assert notes[-1] == "3 more columns seem to hold the answers: 'copy 5', 'copy 6', 'copy 7'"


HONEST = {"CHD_49": 0, "cal500": 0, "foodtruck": 0, "yeast": 0, "enron": 0, "scene-train": 0, "scene-test": 0,
          "birds-train": 0, "medical": 2}  # fmt: skip


@pytest.mark.parametrize("name", HONEST)
def test_tables_of_the_literature_are_hardly_ever_named(data_dir, name):
    folder = data_dir / ("more" if name in ("CHD_49", "cal500", "foodtruck", "yeast") else "mulan")
    table = read_table(folder / f"{name}.arff.gz", xml=folder / f"{name.partition('-')[0]}.xml")
    learn_features(table)
    assert sum("if it holds the answers" in note for note in table.notes) == HONEST[name]

"""Files of every kind through the commands: exports of tools, folders, lists, text as embeddings."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import propml

from propml.tables import embeddings

N = 90


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def drawn():
    """Two numbers per row, and the labels that they mean with some that are false."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2))
    labels = [["sea" if a > 0 else "city", "day" if b > 0 else "night"] for a, b in x]
    return x, [sorted({*own, rng.choice(["sea", "city", "day", "night"])}) for own in labels]


def test_an_export_of_label_studio_is_audited_and_comes_back_to_import(here):
    x, labels = drawn()
    tasks = [
        {"id": i, "data": {"a": a, "b": b}, "predictions": [], "annotations": [
            {"completed_by": who, "was_cancelled": False, "result": [
                {"from_name": "topic", "to_name": "txt", "type": "choices", "value": {"choices": own[who:]}}]}
            for who in (0, 1)]}
        for i, ((a, b), own) in enumerate(zip(x.tolist(), labels, strict=True))
    ]  # fmt: skip
    (here / "export.json").write_text(json.dumps(tasks))
    done = propml("audit", "export.json", "--quick")
    assert done.code == 0, done.err
    made = json.loads((here / "audit" / "cleaned.json").read_text())
    assert [task["annotations"] for task in made] == [task["annotations"] for task in tasks]
    for task, own in zip(made, labels, strict=True):
        (kept,) = task["predictions"]
        assert kept["model_version"] == "propml audit"
        assert set(kept["result"][0]["value"]["choices"]) <= set(own)
    verdicts = json.loads((here / "audit" / "verdicts.json").read_text())
    assert {"item", "label", "verdict", "confidence", "probability"} == set(verdicts[0])
    assert len((here / "audit" / "annotators.csv").read_text().splitlines()) == 3
    (here / "decisions.csv").write_text("item,label,verdict,decision\n")
    applied = propml("audit", "--apply", "decisions.csv")
    assert applied.code == 0, applied.err
    assert (here / "audit" / "reviewed.json").is_file()


def test_a_folder_of_parquet_trains_a_model_that_predicts_json_lines(here):
    x, labels = drawn()
    (here / "parts").mkdir()
    whole = pa.table({"a": x[:, 0], "b": x[:, 1], "tags": labels})
    for part in (0, 1):
        pq.write_table(whole.slice(part * 50, 50), here / "parts" / f"{part}.parquet")
    assert propml("fit", "parts", "--candidates", "tags", "--method", "ridge").code == 0
    (here / "new.jsonl").write_text('{"a": 2, "b": 2}\n{"a": -2, "b": -2}\n')
    done = propml("predict", "model", "new.jsonl", "--top", "2", "--probabilities")
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in (here / "predictions.jsonl").read_text().splitlines()]
    assert [set(row["predicted"]) for row in rows] == [{"sea", "day"}, {"city", "night"}]
    assert all(isinstance(row["p(sea)"], float) for row in rows)


def test_a_model_embeds_new_texts_as_those_it_was_trained_on(here, monkeypatch):
    words = ("sea", "city", "day", "night")
    monkeypatch.setattr(embeddings, "encoder", lambda name: lambda texts: [[w in t for w in words] for t in texts])
    _, labels = drawn()
    rows = [f"the {own[0]} and the {own[-1]} of {i},{';'.join(own)}" for i, own in enumerate(labels)]
    (here / "d.csv").write_text("\n".join(["words,tags", *rows]) + "\n")
    fitted = propml("fit", "d.csv", "--candidates", "tags", "--text", "words", "--embed", "fake", "--method", "ridge")
    assert "embedded by fake" in fitted.out
    (here / "new.csv").write_text("words\nthe sea\n")
    assert propml("predict", "model", "new.csv", "--top", "1").code == 0
    assert (here / "predictions.csv").read_text() == "row,predicted\n0,sea\n"


def test_true_labels_of_a_doccano_file_are_read_by_their_column(here):
    _, labels = drawn()
    lines = [{"id": i, "text": " ".join(own), "label": own} for i, own in enumerate(labels)]
    (here / "all.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert propml("fit", "all.jsonl", "--method", "ridge").code == 0
    judged = propml("evaluate", "model", "all.jsonl", "--truth", "label", "--json")
    assert judged.code == 0, judged.err
    assert json.loads(judged.out)["metrics"]["average_precision"] > 0.9


def test_a_format_that_is_none_is_told(here):
    (here / "d.csv").write_text("a,tags\n1,x\n")
    done = propml("fit", "d.csv", "--candidates", "tags", "--format", "word")
    assert done.code == 1
    assert done.err.startswith("error: --format is 'word'; choose one of csv, tsv, json, jsonl, xlsx")

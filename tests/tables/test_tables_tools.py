"""Exports of labelling tools, answers of language models and label matrices: votes in, cleaned labels out."""

import json
import zipfile

import numpy as np
import pytest

from propml.tables import learn_features, open_table, read_table, write_cleaned
from propml.targets import Candidates

TEXTS = ["the sea at dusk", "a street at night", "people at the sea"]


def changed(table, drop=(), add=()):
    matrix = table.candidates.to_matrix()
    for pairs, state in ((drop, 0), (add, 1)):
        for item, name in pairs:
            matrix[table.item_ids.index(item), table.candidates.labels.index(name)] = state
    return Candidates.from_matrix(matrix, table.candidates.labels, empty="ignore")


def written(path, records, lines=True):
    path.write_text("\n".join(map(json.dumps, records)) if lines else json.dumps(records, indent=2))
    return path


def read_back(path):
    text = path.read_text()
    return json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]


def voters(table):
    """Who proposed what, by item."""
    votes = table.candidates.annotations
    told = {}
    for row, who, label in zip(votes.row, votes.annotator, votes.label, strict=True):
        names = told.setdefault((table.item_ids[row], votes.names[who]), [])
        names += [table.candidates.labels[label]] if label >= 0 else []
    return told


# -- Label Studio --------------------------------------------------------------------------------------------------


def choices(*names):
    return {"id": "Dx_aB", "from_name": "topic", "to_name": "txt", "type": "choices", "origin": "manual",
            "value": {"choices": list(names)}}  # fmt: skip


def studio_tasks():
    def done(who, *names, cancelled=False):
        result = [choices(*names)] if names else []
        return {"id": 1001, "completed_by": who, "was_cancelled": cancelled, "ground_truth": False, "result": result}

    people = [
        [done({"id": 1, "email": "ann@example.org"}, "sea", "sky"), done(2, "sea")],
        [done({"id": 1, "email": "ann@example.org"}, "city"), done(2)],
        [done(2, "sea"), done(3, "city", cancelled=True)],
    ]
    return [
        {"id": 41 + i, "data": {"text": text, "meta": {"likes": i * 3}}, "annotations": own, "predictions": [],
         "project": 83, "created_at": "2021-03-09T21:52:49.513742Z"}
        for i, (text, own) in enumerate(zip(TEXTS, people, strict=True))
    ]  # fmt: skip


def test_label_studio_annotations_are_votes_and_verdicts_come_back_as_predictions(tmp_path):
    path = written(tmp_path / "export.json", studio_tasks(), lines=False)
    table = read_table(path)
    assert table.item_ids == ("41", "42", "43")
    assert table.candidates.to_lists() == [["sea", "sky"], ["city"], ["sea"]]
    assert voters(table) == {
        ("41", "ann@example.org"): ["sea", "sky"], ("41", "2"): ["sea"], ("42", "ann@example.org"): ["city"],
        ("42", "2"): [], ("43", "2"): ["sea"],
    }  # fmt: skip
    assert table.feature_columns == ("text", "meta.likes")
    assert table.texts == TEXTS
    write_cleaned(table, changed(table, [("41", "sky")]), tmp_path / "cleaned.json")
    made = read_back(tmp_path / "cleaned.json")
    predictions = [task.pop("predictions") for task in made]
    assert predictions[0] == [
        {"model_version": "propml audit",
         "result": [{"from_name": "topic", "to_name": "txt", "type": "choices", "value": {"choices": ["sea"]}}]}
    ]  # fmt: skip
    before = studio_tasks()
    for task in before:
        task.pop("predictions")
    assert made == before
    assert read_table(tmp_path / "cleaned.json").candidates.to_lists() == table.candidates.to_lists()


# -- Prodigy -------------------------------------------------------------------------------------------------------


def test_prodigy_choices_of_several_people_are_votes(tmp_path):
    options = [{"id": "SEA", "text": "Sea"}, {"id": "CITY", "text": "City"}]
    tasks = [
        {"text": TEXTS[i], "_input_hash": -1530009927 + i, "_task_hash": 5 + i, "options": options, "accept": accept,
         "answer": answer, "_annotator_id": f"db-{who}", "_timestamp": 1674820000, "meta": {"source": f"s{i}"}}
        for i, who, accept, answer in [
            (0, "ann", ["SEA"], "accept"), (0, "bob", ["SEA", "CITY"], "accept"), (1, "ann", ["CITY"], "accept"),
            (1, "bob", [], "accept"), (2, "ann", ["SEA"], "ignore"),
        ]
    ]  # fmt: skip
    table = read_table(written(tmp_path / "choices.jsonl", tasks))
    first, second, _ = (str(-1530009927 + i) for i in range(3))
    assert voters(table) == {
        (first, "db-ann"): ["SEA"], (first, "db-bob"): ["CITY", "SEA"],
        (second, "db-ann"): ["CITY"], (second, "db-bob"): [],
    }  # fmt: skip
    assert table.feature_columns == ("text", "meta.source")
    write_cleaned(table, changed(table, [(first, "CITY")], [(second, "SEA")]), tmp_path / "c.jsonl")
    made = read_back(tmp_path / "c.jsonl")
    assert [task["accept"] for task in made] == [["SEA"], ["SEA"], ["CITY", "SEA"], [], ["SEA"]]
    assert [{**task, "accept": 0} for task in made] == [{**task, "accept": 0} for task in tasks]


def test_prodigy_yes_and_no_to_one_label(tmp_path):
    tasks = [
        {"text": TEXTS[i % 3], "label": label, "answer": answer, "_input_hash": i % 3, "spans": [], "score": 0.1}
        for i, (label, answer) in enumerate(
            [("sea", "accept"), ("sea", "reject"), ("sea", "accept"), ("sky", "accept")]
        )
    ]
    table = read_table(written(tmp_path / "yes.jsonl", tasks))
    assert table.candidates.to_lists() == [["sea", "sky"], ["sea"]]
    assert table.candidates.annotations is None  # one annotator
    write_cleaned(table, changed(table, [("0", "sky")]), tmp_path / "c.jsonl")
    assert [task["answer"] for task in read_back(tmp_path / "c.jsonl")] == ["accept", "reject", "accept", "reject"]


# -- Doccano -------------------------------------------------------------------------------------------------------


def test_doccano_lines_keep_what_they_have(tmp_path):
    labels = [["sea", "sky"], ["city"], []]
    lines = [{"id": i, "text": text, "label": own, "Comments": []}
             for i, (text, own) in enumerate(zip(TEXTS, labels, strict=True))]  # fmt: skip
    path = written(tmp_path / "all.jsonl", lines)
    table = read_table(path)
    assert table.candidates.to_lists() == [["sea", "sky"], ["city"]]
    assert table.candidates.annotations is None
    write_cleaned(table, changed(table, [("0", "sea")]), tmp_path / "c.jsonl")
    lines[0]["label"] = ["sky"]
    assert read_back(tmp_path / "c.jsonl") == lines
    by_column = read_table(path, candidates="label", id_column="id")
    assert by_column.candidates.to_lists() == table.candidates.to_lists()
    assert open_table(path, file_format="jsonl").names == ("id", "text", "label", "Comments")


def test_a_doccano_zip_has_a_file_for_each_annotator(tmp_path):
    def lines(*labels):
        records = [{"id": i, "text": TEXTS[i], "label": own, "Comments": []} for i, own in enumerate(labels)]
        return "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)

    files = {
        "ann.jsonl": lines(["sea", "sky"], ["city"], []),
        "bob.jsonl": lines(["sea"], [], ["sea"]),
        "idle.jsonl": "",
    }
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        for name, text in files.items():
            zipped.writestr(name, text)
    table = read_table(path)
    assert voters(table) == {
        ("0", "ann"): ["sea", "sky"], ("0", "bob"): ["sea"], ("1", "ann"): ["city"], ("2", "bob"): ["sea"],
    }  # fmt: skip
    assert table.feature_columns == ("text",)
    assert table.suffix == ".zip"
    write_cleaned(table, changed(table, [("0", "sky")], [("1", "sea")]), tmp_path / "c.zip")
    with zipfile.ZipFile(tmp_path / "c.zip") as zipped:
        made = {name: zipped.read(name).decode() for name in zipped.namelist()}
    assert made == {"ann.jsonl": lines(["sea"], ["city", "sea"], []), "bob.jsonl": files["bob.jsonl"]}
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("all.jsonl", files["ann.jsonl"])
    assert read_table(path).candidates.to_lists() == [["sea", "sky"], ["city"]]


# -- Argilla -------------------------------------------------------------------------------------------------------


def test_argilla_responses_and_suggestions_are_votes(tmp_path):
    def record(i, suggested, score, *answers):
        return {
            "id": f"rec-{i}", "status": "completed", "_server_id": f"s{i}", "fields": {"text": TEXTS[i]},
            "metadata": {"length": len(TEXTS[i])}, "vectors": {},
            "suggestions": {"topic": {"value": suggested, "score": score, "agent": "small-model"}},
            "responses": {"topic": [{"value": value, "user_id": who} for who, value in answers]},
        }  # fmt: skip

    records = [
        record(0, ["sea", "sky"], [0.9, 0.2], ("u1", ["sea"]), ("u2", ["sea", "sky"])),
        record(1, ["city"], [0.8], ("u1", ["city"])),
        record(2, ["sea"], None),
    ]
    path = written(tmp_path / "records.json", records, lines=False)
    table = read_table(path, min_confidence=0.5)
    assert voters(table) == {
        ("rec-0", "u1"): ["sea"], ("rec-0", "u2"): ["sea", "sky"], ("rec-0", "small-model"): ["sea"],
        ("rec-1", "u1"): ["city"], ("rec-1", "small-model"): ["city"], ("rec-2", "small-model"): ["sea"],
    }  # fmt: skip
    assert table.feature_columns == ("text", "length")
    write_cleaned(table, changed(table, [("rec-0", "sky")]), tmp_path / "c.json")
    made = read_back(tmp_path / "c.json")
    assert made[0]["suggestions"] == {"topic": {"value": ["sea"], "score": None, "agent": "propml audit"}}
    assert [each["responses"] for each in made] == [each["responses"] for each in records]


def flat_argilla_records():
    """As ``dataset.records.to_list(flatten=True)`` writes them: missing keys are null."""

    def record(i, answers, suggestion=(None, None, None)):
        value, score, agent = suggestion
        return {
            "id": f"rec-{i}", "status": "completed", "_server_id": f"s{i}", "text": TEXTS[i], "length": len(TEXTS[i]),
            "topic.responses": [labels for _, labels, _ in answers] or None,
            "topic.responses.users": [who for who, _, _ in answers] or None,
            "topic.responses.status": [status for _, _, status in answers] or None,
            "topic.suggestion": value, "topic.suggestion.score": score, "topic.suggestion.agent": agent,
        }  # fmt: skip

    return [
        record(0, [("u1", ["sea"], "submitted"), ("u2", ["sea", "sky"], "submitted")], (["sea"], [0.9], "small-model")),
        record(1, [("u1", ["city"], "submitted"), ("u2", ["sea"], "discarded")]),
        record(2, [], (["sea", "sky"], [0.8, 0.4], "small-model")),
    ]


FLAT_VOTES = {
    ("rec-0", "u1"): ["sea"], ("rec-0", "u2"): ["sea", "sky"], ("rec-0", "small-model"): ["sea"],
    ("rec-1", "u1"): ["city"], ("rec-2", "small-model"): ["sea", "sky"],
}  # fmt: skip


@pytest.mark.parametrize("lines", [True, False])
def test_flat_argilla_records_are_read_and_written(tmp_path, lines):
    records = flat_argilla_records()
    table = read_table(written(tmp_path / "records.json", records, lines))
    assert voters(table) == FLAT_VOTES
    assert sorted(table.candidates.annotations.confidence) == [0.4, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0]
    assert table.feature_columns == ("text", "length")
    write_cleaned(table, changed(table, [("rec-0", "sky")]), tmp_path / "c.json")
    made = read_back(tmp_path / "c.json")
    assert made[0] == records[0] | {"topic.suggestion": ["sea"], "topic.suggestion.score": None,
                                    "topic.suggestion.agent": "propml audit"}  # fmt: skip
    again = read_table(tmp_path / "c.json")
    assert voters(again) == {pair: names for pair, names in FLAT_VOTES.items() if pair[1] != "small-model"}


def test_flat_argilla_records_in_parquet_gain_the_columns_that_they_need(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    records = flat_argilla_records()[:2]
    columns = {name: [record[name] for record in records] for name in records[0]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "whole.parquet")
    table = read_table(tmp_path / "whole.parquet")
    assert voters(table) == {pair: names for pair, names in FLAT_VOTES.items() if pair[0] != "rec-2"}
    people = {name: cells for name, cells in columns.items() if "suggestion" not in name}
    parquet.write_table(pyarrow.table(people), tmp_path / "people.parquet")
    table = read_table(tmp_path / "people.parquet")
    write_cleaned(table, changed(table, [("rec-0", "sky")]), tmp_path / "c.parquet")
    made = parquet.read_table(tmp_path / "c.parquet").to_pydict()
    assert {name: made[name] for name in people} == people
    assert made["topic.suggestion"] == [["sea"], ["city"]]
    assert made["topic.suggestion.agent"] == ["propml audit"] * 2


def test_an_argilla_question_for_one_label_is_answered_by_one(tmp_path):
    records = [{"id": f"r{i}", "text": TEXTS[i], "topic.responses": answers, "topic.responses.users": ["u1", "u2"]}
               for i, answers in enumerate([["sea", "sky"], ["city", "city"]])]  # fmt: skip
    table = read_table(written(tmp_path / "records.jsonl", records))
    write_cleaned(table, table.candidates, tmp_path / "c.jsonl")
    assert [each["topic.suggestion"] for each in read_back(tmp_path / "c.jsonl")] == [None, "city"]


# -- language models and rules -------------------------------------------------------------------------------------


@pytest.fixture
def items(tmp_path):
    path = tmp_path / "items.csv"
    path.write_text("id,text,size\n" + "".join(f"t{i},{text},{i}\n" for i, text in enumerate(TEXTS)))
    return path


@pytest.mark.parametrize("as_object", [True, False])
def test_answers_of_language_models_are_votes_with_their_confidence(items, tmp_path, as_object):
    answers = [("t0", "big", {"sea": 0.9, "sky": 0.3}), ("t0", "small", {"sea": 0.6}), ("t1", "big", {"city": 0.7}),
               ("t2", "big", {"sea": 0.2})]  # fmt: skip
    path = written(tmp_path / "answers.jsonl", [
        {"item": item, "model": who, "labels": list(sure), "confidence": sure if as_object else list(sure.values())}
        for item, who, sure in answers
    ])  # fmt: skip
    table = read_table(items, id_column="id", votes=path)
    assert table.candidates.to_lists() == [["sea", "sky"], ["city"], ["sea"]]
    surer = read_table(items, id_column="id", votes=path, min_confidence=0.5)
    assert surer.candidates.to_lists() == [["sea"], ["city"]]
    write_cleaned(table, changed(table, [("t0", "sky")], [("t1", "sky")]), tmp_path / "c.jsonl")
    made = read_back(tmp_path / "c.jsonl")
    assert [answer["labels"] for answer in made] == [["sea"], ["sea"], ["city"], ["sea"], ["sky"]]
    assert made[-1] == {"item": "t1", "model": "propml audit", "labels": ["sky"]}


@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_a_label_matrix_has_one_annotator_per_rule(items, tmp_path, ending):
    matrix = np.array([[0, 1, -1], [2, -1, 2], [0, -1, -1]])
    path = tmp_path / f"L{ending}"
    if ending == ".npy":
        np.save(path, matrix)
        sea, sky, city, rule = "0", "1", "2", "rule 0"
    else:
        np.savez(path, L=matrix, label_names=["sea", "sky", "city"], rules=["word sea", "word sky", "model"])
        sea, sky, city, rule = "sea", "sky", "city", "word sea"
    table = read_table(items, id_column="id", votes=path)
    assert table.candidates.to_lists() == [sorted([sea, sky]), [city], [sea]]
    assert voters(table)["t0", rule] == [sea]
    write_cleaned(table, changed(table, [("t0", sky)], [("t2", sky)]), tmp_path / f"c{ending}")
    made = np.load(tmp_path / f"c{ending}")
    made = made if ending == ".npy" else made["L"]
    assert made.tolist() == [[0, -1, -1, -1], [2, -1, 2, -1], [0, -1, -1, 1]]
    assert read_table(items, votes=tmp_path / f"c{ending}").candidates.to_lists() == [[sea], [city], sorted([sea, sky])]


@pytest.mark.parametrize(
    ("matrix", "told"),
    [(np.zeros((3, 2)), "no matrix of whole numbers"), (np.zeros((2, 2), int), "it has 2 rows and the data 3")],
)
def test_a_matrix_that_does_not_fit_is_told(items, tmp_path, matrix, told):
    np.save(tmp_path / "L.npy", matrix)
    with pytest.raises(ValueError, match=rf"L\.npy .*{told}"):
        read_table(items, votes=tmp_path / "L.npy")


def test_an_export_without_labels_and_a_wrong_format_are_told(tmp_path):
    tasks = [{**task, "annotations": []} for task in studio_tasks()]
    path = written(tmp_path / "export.json", tasks, lines=False)
    with pytest.raises(ValueError, match=r"export\.json holds no label of anybody"):
        read_table(path)
    with pytest.raises(ValueError, match="which is no export of prodigy"):
        read_table(path, file_format="prodigy")


def test_a_model_learns_from_an_export_and_reads_one_without_labels(tmp_path):
    path = written(tmp_path / "export.json", studio_tasks() * 4, lines=False)
    table = read_table(path, text="text")
    learned = learn_features(table)
    fresh = written(tmp_path / "new.json", [{**task, "annotations": []} for task in studio_tasks()], lines=False)
    X, _ = learned.features.apply(open_table(fresh))
    assert X.shape == (3, learned.X.shape[1])


def test_confidences_travel_with_their_votes(items, tmp_path):
    answers = [("t0", "big", ["sky", "sea"], [0.3, 0.9]), ("t0", "small", ["sea"], None),
               ("t1", "big", ["city"], [0.7]), ("t1", "big", ["city"], [0.2]), ("t2", "small", [], [])]  # fmt: skip
    path = written(tmp_path / "answers.jsonl", [
        {"item": item, "model": who, "labels": labels, "confidence": sure} for item, who, labels, sure in answers
    ])  # fmt: skip

    def told(table):
        votes = table.candidates.annotations
        names = (*table.candidates.labels, None)
        entries = zip(votes.row, votes.annotator, votes.label, votes.confidence, strict=True)
        return {(table.item_ids[i], votes.names[a], names[j]): sure for i, a, j, sure in entries}

    table = read_table(items, id_column="id", votes=path)
    assert told(table) == {
        ("t0", "big", "sea"): 0.9, ("t0", "big", "sky"): 0.3, ("t0", "small", "sea"): 1.0, ("t1", "big", "city"): 0.7,
    }  # fmt: skip
    write_cleaned(table, changed(table, [("t0", "sky")]), tmp_path / "c.jsonl")
    again = read_table(items, id_column="id", votes=tmp_path / "c.jsonl")
    assert told(again) == {pair: sure for pair, sure in told(table).items() if pair[2] != "sky"}
    assert read_back(tmp_path / "c.jsonl")[1:] == read_back(path)[1:]


def test_a_label_in_two_spellings_is_as_sure_as_the_surer(items, tmp_path):
    path = written(tmp_path / "answers.jsonl", [
        {"item": "t0", "model": "big", "labels": ["sea", "Sea"], "confidence": {"sea": 0.2, "Sea": 0.6}},
        {"item": "t1", "model": "small", "labels": ["sea"], "confidence": 0.5},
    ])  # fmt: skip
    votes = read_table(items, id_column="id", votes=path, merge_labels=True).candidates.annotations
    assert votes.confidence.tolist() == [0.6, 0.5]


def test_answers_in_parquet_gain_and_lose_labels_with_their_confidences(items, tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    answers = {"item": ["t0", "t0", "t1"], "model": ["big", "small", "big"],
               "labels": [["sky", "sea"], ["sea"], ["city"]], "confidence": [[0.3, 0.9], [0.6], [0.7]]}  # fmt: skip
    parquet.write_table(pyarrow.table(answers), tmp_path / "answers.parquet")
    table = read_table(items, id_column="id", votes=tmp_path / "answers.parquet")
    write_cleaned(table, changed(table, [("t0", "sky")], [("t1", "sea")]), tmp_path / "c.parquet")
    made = parquet.read_table(tmp_path / "c.parquet").to_pydict()
    assert made["labels"] == [["sea"], ["sea"], ["city"], ["sea"]]
    assert made["confidence"] == [[0.9], [0.6], [0.7], None]

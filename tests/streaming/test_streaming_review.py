"""Decisions on the audit of a stream: the labels that they leave are those of a review in memory."""

import json
from pathlib import Path

import logs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from propml.auditing.decisions import Decision, apply_decisions, write_decisions
from propml.auditing.report import AuditReport
from propml.streaming import stream_apply, stream_audit
from propml.targets import Candidates

READ = logs.READING | {"ignore": ["truth"]}


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    base = tmp_path_factory.mktemp("reviewed")
    log = logs.write_log(base / "log", logs.tag_log(150), files=3)
    stream_audit(log, str(base / "out"), reading=READ, params=logs.SMALL, noise=0.4, incomplete=True)
    return base / "out"


def told(out):
    return pq.read_table(out / "verdicts").to_pylist()


def labels_in(folder):
    return {row["item"]: row["tags"].split(";") for row in pq.read_table(folder).to_pylist()}


def some_decisions(out):
    """Against the audit, on every seventh verdict; and a label that it does not speak of."""
    rows = told(out)
    chosen = [Decision(row["item"], row["label"], row["verdict"] in ("drop", "doubtful")) for row in rows[::7]]
    spoken = {row["label"] for row in rows if row["item"] == "photo 0003"}
    other = next(f"digit {j}" for j in range(10) if f"digit {j}" not in spoken)
    return [*chosen, Decision("photo 0003", other, True)]


@pytest.mark.parametrize("undecided", ["verdict", "keep", "drop"])
def test_the_labels_are_those_of_a_review_in_memory(audited, tmp_path, undecided):
    rows, names = told(audited), [f"digit {j}" for j in range(10)]
    items = pq.read_table(audited / "cleaned")["item"].to_pylist()
    probabilities, states = np.zeros((2, 150, 10))
    for row in rows:
        at = items.index(row["item"]), names.index(row["label"])
        probabilities[at], states[at] = row["probability"], row["verdict"] != "missing"
    given = Candidates(Candidates.from_matrix(states).states, tuple(names), tuple(items))
    report = AuditReport(given, probabilities.astype(np.float32), incomplete=True)
    decided = some_decisions(audited)
    path = write_decisions(decided, tmp_path / "decisions.csv")
    folder, counts, conflicts = stream_apply(str(audited), path, undecided=undecided)
    expected = apply_decisions(report, decided, undecided=undecided)
    found = labels_in(folder)
    assert {item: set(own) for item, own in found.items()} == {
        item: set(own) for item, own in zip(items, expected.to_lists(), strict=True)
    }
    assert counts.decided == len(decided)
    assert counts.decided + counts.undecided == len(rows) + 1
    assert conflicts is None


def test_without_decisions_the_labels_are_the_cleaned_ones(audited, tmp_path):
    path = write_decisions([], tmp_path / "decisions.csv")
    stream_apply(str(audited), path)
    assert logs.rows_in(audited / "reviewed") == logs.rows_in(audited / "cleaned")


def test_what_two_people_disagree_on_is_listed(audited, tmp_path):
    row = told(audited)[0]
    paths = [
        write_decisions([Decision(row["item"], row["label"], belongs)], tmp_path / f"{who}.csv")
        for who, belongs in (("ann", True), ("bob", False))
    ]
    _, counts, conflicts = stream_apply(str(audited), paths)
    assert counts.decided == 0
    assert "ann: keep; bob: drop" in Path(conflicts).read_text()


def test_on_a_url_the_command_lists_what_people_disagree_on(audited, tmp_path):
    from command_line import propml

    row = told(audited)[0]
    options = []
    for who, belongs in (("ann", True), ("bob", False)):
        options += ["--apply", write_decisions([Decision(row["item"], row["label"], belongs)], tmp_path / f"{who}.csv")]
    done = propml("audit", *options, "--out", f"file://{audited}")
    assert done.code == 0, done.err
    assert f"{row['item']} · {row['label']} · ann: keep; bob: drop" in done.err


def test_decisions_of_another_audit_and_changed_data_are_refused(audited, tmp_path):
    for item, label, sentence in (
        ("photo 0001", "cat", "there is no label 'cat' in what was audited"),
        ("photo 9999", "digit 1", "there is no item 'photo 9999' in what was audited"),
    ):
        path = write_decisions([Decision(item, label, True)], tmp_path / "decisions.csv")
        with pytest.raises(ValueError, match=sentence):
            stream_apply(str(audited), path)
    path = write_decisions([], tmp_path / "decisions.csv")
    last = audited / "verdicts" / "part-00002.parquet"
    content = last.read_bytes()
    last.unlink()
    with pytest.raises(ValueError, match="is not finished; run the same command again first"):
        stream_apply(str(audited), path)
    last.write_bytes(content)
    data = Path(json.loads((audited / "plan.json").read_text())["data"])
    pq.write_table(pq.read_table(data / "log-0.parquet").slice(1), data / "log-0.parquet")
    with pytest.raises(ValueError, match="was changed since it was audited; audit it again"):
        stream_apply(str(audited), path)


def test_rows_without_candidates_and_names_keep_their_place(tmp_path):
    table = logs.tag_log(90)
    tags = [None if i % 4 == 0 or i >= 60 else tag for i, tag in enumerate(table["tags"].to_pylist())]
    table = table.set_column(table.schema.get_field_index("tags"), "tags", pa.array(tags)).drop_columns(["item"])
    log, out = logs.write_log(tmp_path / "log", table, files=3), tmp_path / "out"
    reading = {name: value for name, value in READ.items() if name != "id_column"}
    stream_audit(log, str(out), reading=reading, params=logs.SMALL)
    first = told(out)[0]
    path = write_decisions([Decision(first["item"], first["label"], False)], tmp_path / "decisions.csv")
    stream_apply(str(out), path, undecided="keep")
    found = pq.read_table(out / "reviewed").to_pylist()
    assert [row["item"] for row in found] == [f"log-{i // 30}.parquet:{i % 30}" for i in range(90)]
    changed = [i for i, row in enumerate(found) if row["tags"] != tags[i]]
    assert [found[i]["item"] for i in changed] == [first["item"]]

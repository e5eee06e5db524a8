"""Audits of streams: the same verdicts to the bit however rows lie and whoever works, as good as those in memory."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import logs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import average_precision_score

import propml
from propml.auditing.crossfit import default_auditor
from propml.auditing.verdicts import VERDICTS
from propml.streaming import audit as streaming
from propml.streaming import judging, stream_audit, summary
from propml.streaming.work import begin, do_parts, workers
from propml.tables.features import Features

HERE = Path(__file__).parent
READ = logs.READING | {"ignore": ["truth"]}


def run(data, out, **settings):
    return stream_audit(str(data), str(out), reading=READ, params=logs.SMALL, **settings)


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """One file, audited in this process: what all others must equal."""
    base = tmp_path_factory.mktemp("audited")
    return base, run(logs.write_log(base / "log"), base / "out")


def test_order_and_partitioning_do_not_matter(audited, tmp_path):
    base, found = audited
    again = run(logs.write_log(tmp_path / "log", files=3, seed=1, group=40), tmp_path / "out")
    for kind in ("verdicts", "cleaned"):
        assert logs.rows_in(tmp_path / "out" / kind) == logs.rows_in(base / "out" / kind)
    assert again.counts == found.counts
    assert again.worst.item_ids == found.worst.item_ids
    first, second = (json.loads(Path(folder, "out", "report.json").read_text()) for folder in (base, tmp_path))
    assert first["labels"] == second["labels"]
    assert first["sample"] == second["sample"]


def test_what_is_written_fits_together(audited):
    base, found = audited
    table = logs.tag_log()
    verdicts = pq.read_table(base / "out" / "verdicts").to_pylist()
    given = {(item, tag) for item, tags in zip(*table.select(["item", "tags"]).to_pydict().values(), strict=True)
             for tag in tags.split(";")}  # fmt: skip
    assert {(row["item"], row["label"]) for row in verdicts} == given
    dropped = {(row["item"], row["label"]) for row in verdicts if row["verdict"] == "drop"}
    assert found.counts == {name: sum(row["verdict"] == name for row in verdicts) for name in VERDICTS}
    assert dropped
    cleaned = pq.read_table(base / "out" / "cleaned").to_pylist()
    assert [row["item"] for row in cleaned] == table["item"].to_pylist()
    assert {(row["item"], tag) for row in cleaned for tag in row["tags"].split(";")} == given - dropped
    report = json.loads((base / "out" / "report.json").read_text())
    assert report["verdicts"] == found.counts
    assert report["sample"]["rows_drawn"] == 300
    page = (base / "out" / "review.html").read_text()
    least = min((row for row in verdicts if row["verdict"] == "drop"), key=lambda row: row["probability"])
    assert least["item"] in page
    assert "pixel 00" in page


def test_verdicts_are_as_good_as_those_in_memory(audited):
    base, _ = audited
    data = logs.mosaic()
    columns = logs.tag_log().drop_columns(["item", "tags", "truth"])
    X = Features.learn({name: columns[name].to_pylist() for name in columns.column_names}).X
    report = propml.audit(X, data.candidates, model=default_auditor(0, False).set_params(**logs.SMALL))
    row, label = np.nonzero(data.candidates.to_matrix())
    false = data.truth[row, label] == 0
    rows = pq.read_table(base / "out" / "verdicts").to_pylist()
    told = {(each["item"], each["label"]): each["probability"] for each in rows}
    streamed = np.array([told[f"photo {i:04d}", f"digit {j}"] for i, j in zip(row, label, strict=True)])
    here = report.probabilities[row, label]
    in_memory, in_stream = (average_precision_score(false, -each) for each in (here, streamed))
    assert in_memory > false.mean() + 0.1
    assert abs(in_memory - in_stream) < 0.03
    assert abs(here.mean() - streamed.mean()) < 0.06


def test_copies_of_a_row_are_never_judged_by_a_model_that_saw_one(tmp_path, monkeypatch):
    table = logs.tag_log(120)
    copies = table.set_column(0, "item", pa.array([f"copy {i}" for i in range(120)]))
    learned, judged = [], {}
    fit, judge = judging.fitted_on, judging.judge_rows

    def fitted_on(model, X, *given):
        learned.append({row.tobytes() for row in X})
        return fit(model, X, *given)

    def judge_rows(model, rates, X, *given):
        judged.setdefault(model, set()).update(row.tobytes() for row in X)
        return judge(model, rates, X, *given)

    monkeypatch.setattr(judging, "fitted_on", fitted_on)
    monkeypatch.setattr(judging, "judge_rows", judge_rows)
    run(logs.write_log(tmp_path / "log", pa.concat_tables([table, copies]), files=2), tmp_path / "out")
    assert len(learned) == len(judged) == 5
    assert sum(map(len, judged.values())) == 120
    for saw, rows in zip(learned, judged.values(), strict=True):
        assert saw.isdisjoint(rows)


def test_rare_labels_are_drawn_more_often_and_their_probabilities_do_not_follow(tmp_path):
    table = logs.tag_log(600)
    tags = [f"{tag};rare" if i % 60 == 0 else tag for i, tag in enumerate(table["tags"].to_pylist())]
    log = logs.write_log(
        tmp_path / "log", table.set_column(table.schema.get_field_index("tags"), "tags", pa.array(tags))
    )
    run(log, tmp_path / "out", train_rows=160)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    drawn = pq.read_table(tmp_path / "out" / "sample.parquet")["tags"].to_pylist()
    assert report["sample"]["rows_drawn"] == len(drawn) < 350
    assert report["sample"]["labels_drawn_more_often"] == {"rare": 1.0}
    assert sum("rare" in tag for tag in drawn) == 10
    noise = json.loads((tmp_path / "out" / "noise" / "part-00000.json").read_text())
    place = report["labels"]["label"].index("rare")
    assert noise["share"][place] == pytest.approx(10 / 600, rel=0.2)


def test_labels_in_columns_and_in_lists_of_several_spellings(tmp_path):
    table = logs.tag_log(120)
    tags = [tags.split(";") for tags in table["tags"].to_pylist()]
    names = sorted({tag for own in tags for tag in own})
    place = table.schema.get_field_index("tags")
    flags = table.remove_column(place)
    for name in names:
        flags = flags.append_column(name, pa.array([int(name in own) for own in tags], pa.int8()))
    spelled = [[tag.upper() if i % 9 == 0 else tag for tag in own] for i, own in enumerate(tags)]
    forms = {
        "text": (table, {}),
        "flags": (flags, {"candidates": None, "label_columns": "digit *"}),
        "merged": (table.set_column(place, "tags", pa.array(spelled)), {"merge_labels": True}),
    }
    found = {}
    for form, (own, reading) in forms.items():
        log = logs.write_log(tmp_path / form, own, files=2)
        stream_audit(log, str(tmp_path / "out" / form), reading=READ | reading, params=logs.SMALL)
        found[form] = logs.rows_in(tmp_path / "out" / form / "verdicts")
    assert found["text"] == found["flags"] == found["merged"]
    cleaned = {form: pq.read_table(tmp_path / "out" / form / "cleaned") for form in forms}
    texts = {row["item"]: row["tags"].split(";") for row in cleaned["text"].to_pylist()}
    assert {row["item"]: [tag.lower() for tag in row["tags"]] for row in cleaned["merged"].to_pylist()} == texts
    assert {row["item"]: [name for name in names if row[name]] for row in cleaned["flags"].to_pylist()} == texts


def test_without_identifiers_rows_are_told_apart_by_their_content(tmp_path):
    table = logs.tag_log(120)
    reading = {name: value for name, value in READ.items() if name != "id_column"}
    found = []
    for name, files, seed in (("one", 1, None), ("three", 3, 2)):
        log = logs.write_log(tmp_path / name, table.drop_columns(["item"]), files=files, seed=seed)
        stream_audit(log, str(tmp_path / "out" / name), reading=reading, params=logs.SMALL)
        found.append(logs.rows_in(tmp_path / "out" / name / "verdicts"))
    assert sorted(row[1:] for row in found[0]) == sorted(row[1:] for row in found[1])
    assert "log-0.parquet:0" in {row[0] for row in found[0]}
    assert "log-2.parquet:5" in {row[0] for row in found[1]}


def test_a_driver_that_is_killed_goes_on_where_it_stopped(audited, tmp_path):
    base, _ = audited
    log, out = logs.write_log(tmp_path / "log", files=6), tmp_path / "out"
    code = (
        "import logs, sys; from propml.streaming import audit; audit.judge_part = logs.judge_slowly; "
        f"audit.stream_audit({log!r}, {str(out)!r}, reading={READ!r}, params=logs.SMALL)"
    )
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path})
    limit = time.monotonic() + 300
    while not (out / "verdicts" / "part-00001.parquet").exists():
        assert process.poll() is None
        assert time.monotonic() < limit
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = {path: path.stat().st_mtime_ns for path in (out / "verdicts").glob("part-*.parquet")}
    assert 2 <= len(finished) < 6
    assert not (out / "report.json").exists()
    run(log, out)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert logs.rows_in(out / "verdicts") == logs.rows_in(base / "out" / "verdicts")
    assert not list(out.rglob("*.writing"))


def test_another_run_in_the_same_folder_is_refused(audited):
    base, _ = audited
    with pytest.raises(ValueError, match=r"holds a run of something else: its settings differs"):
        run(base / "log", base / "out", seed=1)
    other = logs.write_log(base / "other", logs.tag_log(301))
    with pytest.raises(ValueError, match="holds a run of something else"):
        run(other, base / "out")
    with pytest.raises(ValueError, match="is not empty, and holds no run"):
        run(base / "log", base / "other")


def test_a_finished_run_is_not_done_again(audited, monkeypatch):
    base, found = audited
    monkeypatch.setattr(streaming, "judge_part", lambda *_: pytest.fail("judged once more"))
    assert run(base / "log", base / "out").counts == found.counts


@pytest.mark.slow
@pytest.mark.xdist_group("ray")
def test_ray_gives_the_same_bits_and_a_killed_worker_costs_its_part_only(audited, tmp_path, monkeypatch):
    pytest.importorskip("ray", reason="needs propml[cluster]")
    base, _ = audited
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    monkeypatch.setenv("PYTHONPATH", path)
    log, out = logs.write_log(tmp_path / "log", files=4, seed=3), tmp_path / "out"
    run(log, out, ray_address="local")
    expected = logs.rows_in(base / "out" / "verdicts")
    assert logs.rows_in(out / "verdicts") == expected
    for part in (out / "verdicts").iterdir():
        part.unlink()
    settings = json.loads((out / "plan.json").read_text())["settings"]
    job = begin("audit", log, str(out), reading=READ, settings=settings | {"params": logs.SMALL})
    job = dataclasses.replace(job, settings=job.settings | {"flag": str(tmp_path / "died")})
    with workers("local") as on_ray:
        do_parts(on_ray, logs.judge_and_die_once, job, "verdicts", 4)
    assert (tmp_path / "died").exists()
    assert logs.rows_in(out / "verdicts") == expected


def test_candidates_may_be_incomplete(tmp_path):
    log = logs.write_log(tmp_path / "log", files=2)
    found = run(log, tmp_path / "out", incomplete=True, noise=0.2)
    verdicts = pq.read_table(tmp_path / "out" / "verdicts").to_pylist()
    assert sum(row["verdict"] == "missing" for row in verdicts) == found.counts["missing"]


def test_an_item_stands_on_the_page_once():
    page = pa.table({"propml_item": ["b", "a", "b"], "x": [1, 2, 3]})
    assert summary._once(page).to_pydict() == {"propml_item": ["b", "a"], "x": [1, 2]}
    assert summary._once(page.slice(0, 2)).num_rows == 2

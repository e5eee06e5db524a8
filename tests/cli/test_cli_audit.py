"""``propml audit`` from a user's file to cleaned labels, and on to those after a person's review."""

import csv
import gzip
import hashlib
import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import LABELS, propml, told, write_photos
from PIL import Image

from propml.auditing.decisions import Decision, write_decisions
from propml.auditing.report import REPORT_FILE

OPTIONS = ("--candidates", "tags", "--ignore", "truth", "--id", "id", "--quick")
EVIL = "=cmd|' /C calc'!A0"


def rows_of(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """A folder in which photos.csv was audited, and what was printed."""
    folder = tmp_path_factory.mktemp("audited")
    write_photos(folder / "photos.csv", n=150)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        printed = propml("audit", "photos.csv", *OPTIONS)
    assert printed.code == 0, printed.err
    return folder, printed


@pytest.fixture
def here(audited, tmp_path, monkeypatch):
    """A copy of that folder to work in."""
    shutil.copytree(audited[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_everything_is_written_and_told(audited):
    folder, printed = audited
    names = {"review.html", "cleaned.csv", "verdicts.csv", "labels.csv", "audit.json"}
    assert names <= {path.name for path in (folder / "audit").iterdir()}
    assert not (folder / "audit" / "annotators.csv").exists()
    for name in names:
        assert f"wrote audit/{name}" in printed.out
    assert "150 items" in printed.out
    assert "then: propml audit --apply decisions.csv --out audit" in printed.out
    assert "category, 3 values as 0/1 features" in printed.out
    assert "Audit of photos.csv" in (folder / "audit" / "review.html").read_text(encoding="utf-8")


def test_verdicts_are_one_per_candidate(audited):
    folder, _ = audited
    given = {(row["id"], tag) for row in rows_of(folder / "photos.csv") for tag in row["tags"].split(";")}
    verdicts = rows_of(folder / "audit" / "verdicts.csv")
    assert list(verdicts[0]) == ["item", "label", "verdict", "confidence", "probability"]
    assert {(row["item"], row["label"]) for row in verdicts} == given
    assert len(verdicts) == len(given)
    assert {row["verdict"] for row in verdicts} <= {"keep", "doubtful", "drop"}
    assert all(0 <= float(row["confidence"]) <= 1 and 0 <= float(row["probability"]) <= 1 for row in verdicts)


def test_cleaned_labels_differ_from_what_came_in_by_the_drops(audited):
    folder, _ = audited
    before, after = rows_of(folder / "photos.csv"), rows_of(folder / "audit" / "cleaned.csv")
    dropped = {
        (row["item"], row["label"]) for row in rows_of(folder / "audit" / "verdicts.csv") if row["verdict"] == "drop"
    }
    assert dropped
    gone = set()
    for old, new in zip(before, after, strict=True):
        assert {**old, "tags": ""} == {**new, "tags": ""}
        assert list(old) == list(new)
        gone |= {(old["id"], tag) for tag in set(old["tags"].split(";")) - set(new["tags"].split(";"))}
        assert new["tags"]
    assert gone <= dropped
    truth = {(row["id"], tag) for row in before for tag in row["truth"].split(";")}
    given = {(row["id"], tag) for row in before for tag in row["tags"].split(";")}
    # What goes is wrong more often than not, and more often than a candidate is.
    assert len(gone - truth) / len(gone) > max(0.5, 1 - len(truth) / len(given))


def test_the_settings_are_kept(audited):
    folder, _ = audited
    kept = json.loads((folder / "audit" / "audit.json").read_text())
    assert kept["data"] == "photos.csv"
    assert kept["reading"]["candidates"] == "tags"
    assert kept["settings"]["seed"] == 0
    assert kept["settings"]["quick"] is True
    assert (kept["rows"], kept["labels"]) == (150, 5)
    assert set(kept["columns"]) == {"a", "b", "c", "camera"}
    assert "torch" in kept["versions"]
    reliability = rows_of(folder / "audit" / "labels.csv")
    assert [row["label"] for row in reliability] == list(LABELS)


def test_the_same_seed_gives_the_same_verdicts(here):
    assert propml("audit", "photos.csv", *OPTIONS, "--out", "again").code == 0
    assert (here / "again" / "verdicts.csv").read_bytes() == (here / "audit" / "verdicts.csv").read_bytes()


def test_models_may_learn_from_some_rows_and_judge_all(here):
    done = propml("audit", "photos.csv", *OPTIONS, "--train-rows", "60", "--out", "some")
    assert done.code == 0, done.err
    assert "note: each model trained on 60 random rows, none of which it judges" in done.err
    assert len(rows_of(here / "some" / "verdicts.csv")) == len(rows_of(here / "audit" / "verdicts.csv"))
    kept = json.loads((here / "some" / "audit.json").read_text())
    assert kept["settings"]["train_rows"] == kept["judged_by"]["train_rows"] == 60
    assert kept["judged_by"]["model"] == "ProPMLClassifier"
    assert propml("audit", "photos.csv", *OPTIONS, "--train-rows", "0", "--out", "all").code == 0
    assert (here / "all" / "verdicts.csv").read_bytes() == (here / "audit" / "verdicts.csv").read_bytes()


# -- after the review ----------------------------------------------------------------------------------------------


def test_decisions_are_applied(here):
    verdicts = rows_of(here / "audit" / "verdicts.csv")
    cleaned = {row["id"]: row["tags"].split(";") for row in rows_of(here / "audit" / "cleaned.csv")}
    drop = next(row for row in verdicts if row["verdict"] == "drop" and row["label"] not in cleaned[row["item"]])
    keep = next(row for row in verdicts if row["verdict"] == "keep" and len(cleaned[row["item"]]) > 1)
    decisions = [
        Decision(drop["item"], drop["label"], belongs=True, verdict="drop"),
        Decision(keep["item"], keep["label"], belongs=False, verdict="keep"),
    ]
    write_decisions(decisions, here / "decisions.csv")
    done = propml("audit", "--apply", "decisions.csv")
    assert done.code == 0, done.err
    assert "labels after your review: audit/reviewed.csv" in done.out
    others = len(verdicts) - 2
    gone = sum(len(row["tags"].split(";")) - len(cleaned[row["id"]]) for row in rows_of(here / "photos.csv")) - 1
    said = f"2 verdicts decided, {others} undecided: of these {gone} labels went, {others - gone} stayed"
    assert f"{said} (--undecided verdict)" in done.out
    reviewed = {row["id"]: row["tags"].split(";") for row in rows_of(here / "audit" / "reviewed.csv")}
    expected = {item: list(tags) for item, tags in cleaned.items()}
    expected[drop["item"]] = sorted([*expected[drop["item"]], drop["label"]])
    expected[keep["item"]].remove(keep["label"])
    assert reviewed == expected
    assert list(rows_of(here / "audit" / "reviewed.csv")[0]) == list(rows_of(here / "photos.csv")[0])


def test_two_reviewers_are_merged_their_conflicts_listed_and_a_third_settles_them(here):
    one, two, *_ = (row for row in rows_of(here / "audit" / "verdicts.csv") if row["verdict"] == "keep")
    names = [(row["item"], row["label"]) for row in (one, two)]
    for who, said in {"ann": (False, True), "bob": (False, False), "eve": (False, False)}.items():
        told_by = [Decision(*name, belongs, "keep") for name, belongs in zip(names, said, strict=True)]
        write_decisions(told_by, here / f"{who}.csv")
    done = propml("audit", "--apply", "ann.csv", "--apply", "bob.csv")
    assert done.code == 0, done.err
    assert done.out.startswith("1 verdicts decided")
    assert f"  {two['item']} · {two['label']} · ann: keep; bob: drop" in done.err
    assert "load audit/conflicts.csv into the page" in done.err
    after = {row["id"]: row["tags"].split(";") for row in rows_of(here / "audit" / "reviewed.csv")}
    assert one["label"] not in after[one["item"]]
    assert two["label"] in after[two["item"]]
    done = propml("audit", "--apply", "ann.csv", "--apply", "bob.csv", "--apply", "eve.csv")
    assert done.out.startswith("2 verdicts decided")
    assert "conflicts" not in done.err
    after = {row["id"]: row["tags"].split(";") for row in rows_of(here / "audit" / "reviewed.csv")}
    assert two["label"] not in after[two["item"]]


def test_an_audit_learns_from_decisions_and_remembers_them(here):
    verdicts = rows_of(here / "audit" / "verdicts.csv")
    worst = sorted(verdicts, key=lambda row: float(row["probability"]))[:40]
    truth = {(row["id"], tag) for row in rows_of(here / "photos.csv") for tag in row["truth"].split(";")}
    told_by = [Decision(row["item"], row["label"], (row["item"], row["label"]) in truth) for row in worst]
    write_decisions(told_by[:20], here / "one.csv")
    write_decisions(told_by[20:], here / "two.csv")
    done = propml("audit", "--again", "one.csv")
    assert done.code == 0, done.err
    assert "note: A person reviewed 20 labels, and" in done.err
    done = propml("audit", "--again", "two.csv")
    assert done.code == 0, done.err
    assert "note: A person reviewed 40 labels, and" in done.err
    after = {(row["item"], row["label"]): float(row["probability"]) for row in rows_of(here / "audit" / "verdicts.csv")}
    cleaned = {(row["id"], tag) for row in rows_of(here / "audit" / "cleaned.csv") for tag in row["tags"].split(";")}
    for each in told_by:
        assert after.get((each.item, each.label)) == (1.0 if each.belongs else None)
        assert ((each.item, each.label) in cleaned) == each.belongs
    assert json.loads((here / "audit" / "audit.json").read_text())["settings"]["quick"] is True
    write_decisions([], here / "none.csv")
    assert propml("audit", "--apply", "none.csv").code == 0
    assert (here / "audit" / "reviewed.csv").read_bytes() == (here / "audit" / "cleaned.csv").read_bytes()
    write_decisions([Decision(told_by[0].item, told_by[0].label, not told_by[0].belongs)], here / "three.csv")
    said = told(propml("audit", "--again", "one.csv", "--again", "three.csv"))
    assert said.startswith("1 labels are both kept and dropped in these files, first")


def test_undecided_labels_stay_or_go_as_asked(here):
    before = {row["id"]: row["tags"] for row in rows_of(here / "photos.csv")}
    kept = [row for row in rows_of(here / "audit" / "verdicts.csv") if row["verdict"] == "keep"]
    write_decisions([], here / "decisions.csv")
    assert propml("audit", "--apply", "decisions.csv", "--undecided", "keep").code == 0
    assert {row["id"]: row["tags"] for row in rows_of(here / "audit" / "reviewed.csv")} == before
    done = propml("audit", "--apply", "decisions.csv", "--undecided", "drop")
    assert "(--undecided drop)" in done.out
    after = {row["id"]: row["tags"].split(";") for row in rows_of(here / "audit" / "reviewed.csv")}
    assert all(row["label"] in after[row["item"]] for row in kept)
    without = set(before) - {row["item"] for row in kept}
    assert sum(map(len, after.values())) == len(kept) + len(without)
    assert propml("audit", "--apply", "decisions.csv", "--undecided", "maybe").code == 2


def test_an_identifier_of_two_rows_is_told_before_any_training(here):
    text = (here / "photos.csv").read_text()
    (here / "twice.csv").write_text(text.replace("\np7,", "\np3 ,"))
    said = told(propml("audit", "twice.csv", *OPTIONS, "--out", "new"))
    assert "twice.csv: row 7 (line 9), column 'id' is 'p3', as in row 3; give every row an identifier" in said
    rows = rows_of(here / "photos.csv")
    ids = [float(i) for i in range(len(rows) - 1)] + [5.0]
    pq.write_table(pa.table({"id": ids, "a": ids, "tags": [row["tags"] for row in rows]}), here / "twice.parquet")
    said = told(propml("audit", "twice.parquet", "--candidates", "tags", "--id", "id", "--out", "new"))
    assert f"twice.parquet: row {len(rows) - 1}, column 'id' is '5', as in row 5" in said
    assert not (here / "new").exists()


def test_a_file_that_moved_or_changed(here):
    write_decisions([], here / "decisions.csv")
    (here / "photos.csv").rename(here / "moved.csv")
    assert "photos.csv, which was audited, is not there any more" in told(propml("audit", "--apply", "decisions.csv"))
    assert propml("audit", "moved.csv", "--apply", "decisions.csv").code == 0
    (here / "photos.csv").write_text((here / "moved.csv").read_text().replace("Nikon", "Canon"))
    assert "is not the file that was audited" in told(propml("audit", "--apply", "decisions.csv"))


def test_decisions_of_something_else_are_told(here):
    write_decisions([Decision("p999", "sea", belongs=True)], here / "decisions.csv")
    assert "there is no item 'p999'" in told(propml("audit", "--apply", "decisions.csv"))
    assert "there is no audit in elsewhere" in told(propml("audit", "--apply", "decisions.csv", "--out", "elsewhere"))
    assert "nowhere.csv is not there" in told(propml("audit", "--apply", "nowhere.csv"))


@pytest.mark.parametrize(
    "changed",
    [[], {"reading": []}, {"reading": None}, {"sha256": []}, {"sha256": {}}, {"data": None}, {"rows": 7}],
    ids=str,
)
def test_settings_that_make_no_sense_are_told(here, changed):
    write_decisions([], here / "decisions.csv")
    path = here / "audit" / "audit.json"
    path.write_text(json.dumps(changed and json.loads(path.read_text()) | changed))
    assert "audit.json is not a readable record of an audit" in told(propml("audit", "--apply", "decisions.csv"))


# -- the folder ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cleaned.csv", "reviewed.csv", "labels.csv"])
def test_the_file_that_is_audited_is_not_written_over(here, name, monkeypatch):
    shutil.copy(here / "photos.csv", here / "audit" / name)
    before = {path.name: path.read_bytes() for path in (here / "audit").iterdir() if path.is_file()}
    monkeypatch.setattr("propml.tables.files.read_table", None)
    said = told(propml("audit", f"audit/{name}", *OPTIONS))
    assert said == f"audit/{name} is read here and would be overwritten; write to another place"
    said = told(propml("audit", "photos.csv", "--id", "id", "--votes", f"audit/{name}"))
    assert f"audit/{name} is read here" in said
    assert {path.name: path.read_bytes() for path in (here / "audit").iterdir() if path.is_file()} == before


def test_labels_after_the_review_are_not_written_over_what_was_audited(here):
    write_decisions([], here / "decisions.csv")
    (here / "photos.csv").rename(here / "audit" / "reviewed.csv")
    before = (here / "audit" / "reviewed.csv").read_bytes()
    said = told(propml("audit", "audit/reviewed.csv", "--apply", "decisions.csv"))
    assert "audit/reviewed.csv is read here and would be overwritten" in said
    assert (here / "audit" / "reviewed.csv").read_bytes() == before


def test_an_audit_replaces_the_one_that_was_there(here, monkeypatch):
    write_decisions([], here / "audit" / "decisions.csv")
    assert propml("audit", "--apply", "audit/decisions.csv").code == 0
    for name in ("annotators.csv", "cleaned.npz"):
        (here / "audit" / name).write_text("mine")
    (here / "photos.tsv").write_text((here / "photos.csv").read_text().replace(",", "\t"))
    assert propml("audit", "photos.tsv", *OPTIONS).code == 0
    assert {path.name for path in (here / "audit").iterdir()} == {
        "review.html", "cleaned.tsv", "verdicts.csv", "labels.csv", "audit.json", "report",
        "decisions.csv", "reviewed.csv", "annotators.csv", "cleaned.npz",
    }  # fmt: skip


def test_files_of_a_folder_that_holds_no_audit_stay(here):
    (here / "mine").mkdir()
    (here / "mine" / "reviewed.csv").write_text("mine")
    assert propml("audit", "photos.csv", *OPTIONS, "--out", "mine").code == 0
    assert (here / "mine" / "reviewed.csv").read_text() == "mine"


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_audit_that_fails_half_way_leaves_the_one_before(here, monkeypatch):
    before = contents(here / "audit")

    def full(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr("propml.auditing.folder.write_cleaned", full)
    assert "no space left" in told(propml("audit", "photos.csv", *OPTIONS, "--seed", "1"))
    assert contents(here / "audit") == before


def test_parts_of_two_audits_are_not_applied(here):
    write_decisions([], here / "decisions.csv")
    assert propml("audit", "photos.csv", *OPTIONS, "--seed", "1", "--out", "other").code == 0
    for part in ("report/report.safetensors", "review.html"):
        before = (here / "audit" / part).read_bytes()
        shutil.copy(here / "other" / part, here / "audit" / part)
        said = told(propml("audit", "--apply", "decisions.csv"))
        assert f"audit/audit.json does not belong to audit/{part}; audit again" in said
        (here / "audit" / part).write_bytes(before)
    assert propml("audit", "--apply", "decisions.csv").code == 0


@pytest.mark.parametrize("change", [("\np7,", "\nq7,"), ("snow", "ice")], ids=["items", "labels"])
def test_a_report_of_another_file_is_refused_whatever_its_checksums(here, change):
    """Both checksums of the record are right; only the items or labels tell that the report is of another file."""
    write_decisions([], here / "decisions.csv")
    (here / "other.csv").write_text((here / "photos.csv").read_text().replace(*change))
    assert propml("audit", "other.csv", *OPTIONS, "--out", "other").code == 0
    shutil.copy(here / "other" / "report" / REPORT_FILE, here / "audit" / "report" / REPORT_FILE)
    record = json.loads((here / "audit" / "audit.json").read_text()) | {
        "report_sha256": json.loads((here / "other" / "audit.json").read_text())["report_sha256"]
    }
    del record["own_sha256"]
    digest = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
    (here / "audit" / "audit.json").write_text(json.dumps({**record, "own_sha256": digest}))
    said = told(propml("audit", "--apply", "decisions.csv"))
    assert said == f"audit/report/{REPORT_FILE} does not belong to photos.csv; audit again"
    assert not (here / "audit" / "reviewed.csv").exists()


def test_a_foreign_record_removes_nothing(here):
    (here / "mine").mkdir()
    for name in ("verdicts.old", "annotators.csv", "photos.csv"):
        shutil.copy(here / "photos.csv", here / "mine" / name)
    names = ["photos.csv", "annotators.csv", "../photos.csv", "verdicts.old"]
    (here / "mine" / "audit.json").write_text(json.dumps({"files": names}))
    assert propml("audit", "mine/photos.csv", *OPTIONS, "--out", "mine").code == 0
    for name in names:
        assert (here / "mine" / name).read_bytes() == (here / "photos.csv").read_bytes()


@pytest.mark.parametrize("name", ["verdicts.csv", "audit.json", "cleaned.csv", "report"])
def test_nothing_is_written_through_a_link(here, monkeypatch, name):
    (here / "mine").mkdir()
    (here / "elsewhere").write_text("mine")
    (here / "mine" / name).symlink_to(here / "elsewhere")
    with monkeypatch.context() as patch:
        patch.setattr("propml.tables.files.read_table", None)
        assert f"mine/{name} is a link, and would be written over" in told(
            propml("audit", "photos.csv", *OPTIONS, "--out", "mine")
        )
    assert (here / "elsewhere").read_text() == "mine"


def test_labels_after_the_review_are_not_written_through_a_link(here):
    write_decisions([], here / "decisions.csv")
    (here / "elsewhere.csv").write_text("mine")
    (here / "audit" / "reviewed.csv").symlink_to(here / "elsewhere.csv")
    assert "reviewed.csv is a link" in told(propml("audit", "--apply", "decisions.csv"))
    assert (here / "elsewhere.csv").read_text() == "mine"


@pytest.mark.parametrize("out", ["photos.csv", "photos.csv/audit"])
def test_a_place_that_cannot_be_used_is_told_before_the_work(here, monkeypatch, out):
    monkeypatch.setattr("propml.tables.files.read_table", None)
    said = told(propml("audit", "photos.csv", *OPTIONS, "--out", out))
    assert said == f"photos.csv is not a folder, so nothing can be written to {out}; choose another"


# -- other ways to give labels -------------------------------------------------------------------------------------


def test_votes_in_and_votes_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_photos(tmp_path / "photos.csv", n=80, false=0.0)
    rng = np.random.default_rng(0)
    with (tmp_path / "votes.csv").open("w", newline="") as file:
        write = csv.writer(file)
        write.writerow(["item", "annotator", "label"])
        for row in rows_of(tmp_path / "photos.csv"):
            true = row["truth"].split(";")
            write.writerows([row["id"], "ann", label] for label in true)
            write.writerows([row["id"], "bob", label] for label in LABELS if rng.random() < 0.5)
    done = propml("audit", "photos.csv", "--id", "id", "--votes", "votes.csv", "--ignore", "tags,truth", "--quick")
    assert done.code == 0, done.err
    reliability = {row["annotator"]: row for row in rows_of(tmp_path / "audit" / "annotators.csv")}
    assert set(reliability) == {"ann", "bob"}
    assert float(reliability["ann"]["false_positive_rate"]) < float(reliability["bob"]["false_positive_rate"])
    before, after = rows_of(tmp_path / "votes.csv"), rows_of(tmp_path / "audit" / "cleaned.csv")
    assert list(after[0]) == ["item", "annotator", "label"]
    kept = [tuple(row.values()) for row in after]
    assert kept == [tuple(row.values()) for row in before if tuple(row.values()) in set(kept)]
    gone = [row["annotator"] for row in before if tuple(row.values()) not in set(kept)]
    assert gone.count("bob") > gone.count("ann")
    write_decisions([], tmp_path / "decisions.csv")
    assert propml("audit", "--apply", "decisions.csv").code == 0
    assert (tmp_path / "audit" / "reviewed.csv").read_bytes() == (tmp_path / "audit" / "cleaned.csv").read_bytes()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    apply = ("audit", "../photos.csv", "--apply", "../decisions.csv", "--out", "../audit")
    assert "votes.csv, which was audited, is not there any more; name it where it is now (--votes)" in told(
        propml(*apply)
    )
    (tmp_path / "audit" / "reviewed.csv").unlink()
    assert propml(*apply, "--votes", "../votes.csv").code == 0
    assert (tmp_path / "audit" / "reviewed.csv").read_bytes() == (tmp_path / "audit" / "cleaned.csv").read_bytes()
    (tmp_path / "votes.csv").write_text((tmp_path / "votes.csv").read_text().replace("bob", "rob"))
    assert "votes.csv is not the file that was audited" in told(propml(*apply, "--votes", "../votes.csv"))


def test_votes_of_an_audit_without_votes_are_refused(here):
    write_decisions([], here / "decisions.csv")
    said = told(propml("audit", "--apply", "decisions.csv", "--votes", "photos.csv"))
    assert said == "the audit in audit had no votes; leave out photos.csv"


def test_numbers_are_labels_from_the_file_to_the_review(here):
    rows = rows_of(here / "photos.csv")
    codes = [[2**24 + LABELS.index(tag) for tag in row["tags"].split(";")[:1]] for row in rows]
    table = pa.table({"a": [float(row["a"]) for row in rows], "b": [float(row["b"]) for row in rows], "tags": codes})
    pq.write_table(table, here / "codes.parquet")
    assert propml("audit", "codes.parquet", "--candidates", "tags", "--quick", "--out", "c").code == 0
    assert {row["label"] for row in rows_of(here / "c" / "labels.csv")} == {str(code) for (code,) in codes}
    assert pq.read_table(here / "c" / "cleaned.parquet").column("tags").to_pylist() == codes


def test_labels_that_are_missing(here):
    done = propml("audit", "photos.csv", *OPTIONS, "--incomplete", "--out", "more")
    assert done.code == 0, done.err
    verdicts = rows_of(here / "more" / "verdicts.csv")
    tags = {row["id"]: row["tags"].split(";") for row in rows_of(here / "photos.csv")}
    missing = [row for row in verdicts if row["verdict"] == "missing"]
    assert all(row["label"] not in tags[row["item"]] for row in missing)
    cleaned = {row["id"]: row["tags"].split(";") for row in rows_of(here / "more" / "cleaned.csv")}
    assert all(row["label"] in cleaned[row["item"]] for row in missing)


def test_parquet_and_npz_come_back_as_they_were(here):
    rows = rows_of(here / "photos.csv")
    X = np.array([[float(row["a"]), float(row["b"])] for row in rows])
    flags = np.array([[label in row["tags"].split(";") for label in LABELS] for row in rows])
    table = pa.table({"a": X[:, 0], "b": X[:, 1], **{f"y_{label}": flags[:, j] for j, label in enumerate(LABELS)}})
    pq.write_table(table, here / "photos.parquet")
    np.savez(here / "photos.npz", X=X, candidates=flags.astype(int), label_names=LABELS)
    done = propml("audit", "photos.parquet", "--label-columns", "y_*", "--quick", "--out", "p")
    assert done.code == 0, done.err
    cleaned = pq.read_table(here / "p" / "cleaned.parquet")
    assert cleaned.schema.equals(table.schema)
    assert propml("audit", "photos.npz", "--quick", "--out", "n").code == 0
    with np.load(here / "n" / "cleaned.npz") as stored:
        kept = stored["candidates"]
        assert (stored["X"] == X).all()
    assert ((kept == 1) <= flags).all()
    assert kept.sum() < flags.sum()


def test_text_and_pictures_on_the_page(here):
    image = pytest.importorskip("PIL.Image", reason="Pillow makes the pictures")
    rows = rows_of(here / "photos.csv")
    image.fromarray(np.full((8, 8, 3), 200, np.uint8)).save(here / "one.png")
    with (here / "words.csv").open("w", newline="") as file:
        write = csv.writer(file)
        write.writerow(["id", "words", "file", "a", "tags"])
        write.writerows([row["id"], f"seen {row['truth']} today", "one.png" if i else "gone.png", row["a"], row["tags"]]
                        for i, row in enumerate(rows))  # fmt: skip
    done = propml("audit", "words.csv", "--candidates", "tags", "--id", "id", "--text", "words", "--image", "file",
                  "--quick", "--out", "w")  # fmt: skip
    assert done.code == 0, done.err
    assert "text, TF-IDF of" in done.out
    assert "note: 1 pictures cannot be shown, first that of row 0" in done.err
    page = (here / "w" / "review.html").read_text(encoding="utf-8")
    assert f"seen {rows[0]['truth']} today" in page
    assert "png;base64," in page


def test_hostile_names_stay_text(here):
    text = (here / "photos.csv").read_text().replace("p7,", f"{EVIL},").replace("sea", "@sea").replace("[", "")
    (here / "evil.csv").write_text(text.replace("p8,", "[bold]\x1b[31m,"))
    done = propml("audit", "evil.csv", *OPTIONS, "--out", "e")
    assert done.code == 0, done.err
    assert "\x1b" not in done.out
    items = {row["item"] for row in rows_of(here / "e" / "verdicts.csv")}
    assert "'" + EVIL in items
    assert EVIL not in items
    assert "'@sea" in {row["label"] for row in rows_of(here / "e" / "labels.csv")}
    with (here / "e" / "cleaned.csv").open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if cell[:1] in "=@" and cell]
    write_decisions([Decision(EVIL, label, belongs=True, verdict="keep") for label in ("@sea",)], here / "d.csv")
    assert propml("audit", "--apply", "d.csv", "--out", "e").code == 0


def test_labels_of_two_spellings(here):
    text = (here / "photos.csv").read_text().replace(",sea,", ",Sea,")
    (here / "two.csv").write_text(text)
    done = propml("audit", "two.csv", *OPTIONS, "--out", "two")
    assert (
        "note: labels differ only in case or blanks: 'Sea' and 'sea'; if each means one label, give --merge-labels"
        in (done.err)
    )
    done = propml("audit", "two.csv", *OPTIONS, "--out", "one", "--merge-labels")
    assert done.code == 0, done.err
    assert {row["label"] for row in rows_of(here / "one" / "labels.csv")} == set(LABELS)
    write_decisions([], here / "none.csv")
    assert propml("audit", "--apply", "none.csv", "--out", "one").code == 0
    assert (here / "one" / "reviewed.csv").read_bytes() == (here / "one" / "cleaned.csv").read_bytes()
    assert (
        propml(
            "fit", "two.csv", "--candidates", "tags", "--features", "a,b", "--method", "ridge", "--merge-labels"
        ).code
        == 0
    )
    assert propml("evaluate", "model", "two.csv", "--truth", "tags").code == 0


# -- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("photos.csv",), "say where the candidate labels are"),
        (("photos.csv", "--candidates", "labels"), "has no column 'labels'"),
        (("photos.csv", "--candidates", "tags", "--sep", ","), "choose --sep ';'"),
        (("photos.csv", "--votes", "votes.csv"), "say with --id which column of the data identifies them"),
        (("nowhere.csv", "--candidates", "tags"), "nowhere.csv does not exist"),
        (("photos.csv", "--candidates", "tags", "--device", "abacus"), "device abacus cannot be used here"),
        (("photos.csv", "--candidates", "tags", "--device", "meta"), "device meta cannot be used here"),
        (("photos.csv", "--label-columns", ""), "or an annotator table (--votes); it has 'id', 'a'"),
        (("photos.csv", "--candidates", "tags", "--xml", "photos.xml"), "is no ARFF file"),
        (("photos.csv", "--candidates", "tags", "--min-votes", "3"), "no votes were given"),
        (
            ("photos.csv", "--candidates", "tags", "--id", "id", "--votes", "votes.csv", "--min-votes", "3"),
            "here the data names its candidates; leave out --min-votes",
        ),
        (("photos.csv", "--candidates", "tags", "--undecided", "drop"), "--undecided drop works only with --apply"),
        (("photos.csv", "--candidates", "camera", "--sep", "none", "--incomplete"), "a cell holds one"),
        (("d.npz", "--sep", "|"), "--sep | is for the column that --candidates names"),
        (("d.npz", "--categorical", "a"), "has no columns to name with --categorical"),
        (("d.npz", "--xml", "d.xml"), "has no columns to name"),
        (("d.npz", "--min-votes", "2"), "no votes were given"),
    ],
)
def test_a_mistake_is_one_sentence(here, arguments, sentence):
    np.savez(here / "d.npz", X=np.eye(3), candidates=np.eye(3, dtype=int))
    (here / "votes.csv").write_text("item,annotator,label\np1,ann,sea\n")
    assert sentence in told(propml("audit", *arguments, "--out", "new"))
    assert not (here / "new").exists()


def test_noise_is_stated_by_name_by_share_or_by_label(here):
    first = LABELS[0]
    for noise, shown in (
        ("uniform", "--noise uniform"),
        ("0.3", "--noise 0.3"),
        (f"{first}=0.5", f"--noise {first}=0.5"),
    ):
        printed = propml("audit", "photos.csv", *OPTIONS, "--noise", noise)
        assert printed.code == 0, printed.err
        assert f"of the candidates are false, by {shown}" in printed.err
        assert json.loads((here / "audit" / "audit.json").read_text())["settings"]["noise"] == noise


@pytest.mark.parametrize(
    ("noise", "sentence"),
    [
        ("loud", "--noise is 'loud'; choose one of"),
        ("sun=much", "'sun=much' is not LABEL=SHARE"),
        ("snwo=0.2", "--noise names the label 'snwo', which no row has"),
        ("1.5", "--noise is 1.5; give the share of candidates that is false"),
        ("nan", "--noise is nan; give the share of candidates that is false"),
    ],
)
def test_noise_that_makes_no_sense_is_told_before_any_training(here, monkeypatch, noise, sentence):
    monkeypatch.setattr("propml.auditing.process.held_out_scores", None)
    assert sentence in told(propml("audit", "photos.csv", *OPTIONS, "--noise", noise))


def test_nothing_to_audit_is_a_usage_error():
    done = propml("audit")
    assert done.code == 2
    assert "name the file to audit" in done.err


def test_the_help_teaches_by_example():
    shown = propml("audit", "--help")
    assert "propml audit photos.csv --candidates tags" in shown.out
    assert "propml audit --apply decisions.csv" in shown.out


def test_the_page_shows_a_picture_from_elsewhere_only_when_told_to(tmp_path, monkeypatch):
    (tmp_path / "set").mkdir()
    monkeypatch.chdir(tmp_path / "set")
    pixels = np.random.default_rng(0).integers(0, 255, (90, 90, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "secret.png")
    lines = write_photos(tmp_path / "set" / "photos.csv", n=40).read_text().splitlines()
    rows = [f"{line},../secret.png" for line in lines[1:]]
    (tmp_path / "set" / "photos.csv").write_text("\n".join([f"{lines[0]},file", *rows]) + "\n")
    printed = propml("audit", "photos.csv", *OPTIONS, "--image", "file")
    assert printed.code == 0
    assert "40 pictures lie outside the folder of photos.csv and will not be shown" in printed.err
    assert "base64," not in (tmp_path / "set" / "audit" / "review.html").read_text()
    printed = propml("audit", "photos.csv", *OPTIONS, "--image", "file", "--allow-outside")
    assert (printed.code, "outside" in printed.err) == (0, False)
    assert "jpeg;base64," in (tmp_path / "set" / "audit" / "review.html").read_text()


def test_a_table_that_was_cut_short_is_one_sentence(tmp_path):
    """Click takes an EOFError for a user who gave up, and says "Aborted."."""
    path = tmp_path / "photos.csv.gz"
    text = write_photos(tmp_path / "photos.csv").read_text()
    for content in (text.encode(), text.replace("Canon", "Caf\u00e9").encode("latin-1")):
        path.write_bytes(gzip.compress(content)[:-20])
        for arguments in (("audit", path, *OPTIONS), ("fit", path, *OPTIONS, "--out", tmp_path / "model")):
            sentence = told(propml(*arguments))
            assert sentence.startswith(f"{path} is not a readable")
            assert sentence.endswith("copy it again, or make it again")

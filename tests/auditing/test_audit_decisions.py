"""Facts about decisions: the file survives spreadsheets, mistakes are named, and labels follow what was decided."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from fake_report import HOSTILE, fake_report

from propml.auditing.decisions import (
    Decision,
    Reviewed,
    apply_decisions,
    merge_decisions,
    read_decisions,
    review_counts,
    write_conflicts,
    write_decisions,
)
from propml.auditing.report import AuditReport
from propml.targets import Candidates

HEADER = "item,label,verdict,decision,decided_at\n"


def written(folder, text, encoding="utf-8"):
    path = folder / "decisions.csv"
    path.write_bytes(text.encode(encoding))
    return path


def beaches():
    """Two photos; of the first, sunset is improbable and night doubtful; the second misses night."""
    candidates = Candidates.from_lists([["beach", "night", "sunset"], ["beach", "sunset"]])
    candidates = replace(candidates, index=("photo-1", "photo-2"))
    return AuditReport(candidates, np.array([[0.9, 0.6, 0.1], [0.8, 0.8, 0.9]]), incomplete=True)


# -- the file -----------------------------------------------------------------------------------------------------


def test_the_page_s_file_is_read(tmp_path):
    path = written(
        tmp_path,
        HEADER + "photo-1,sunset,drop,accept,2026-01-02T03:04:05.000Z\n"
        "photo-1,night,doubtful,reject,\n"
        "photo-2,beach,keep,,\n"
        "\n"
        ",,,\n"
        'photo-2,"night, late",missing,Accept,\n',
    )
    assert read_decisions(path) == [
        Decision("photo-1", "sunset", False, "drop", "2026-01-02T03:04:05.000Z"),
        Decision("photo-1", "night", True, "doubtful"),
        Decision("photo-2", "night, late", True, "missing"),
    ]


def test_what_is_written_is_read_again_and_is_no_formula(tmp_path):
    names = [*HOSTILE, "'", "''=x", "-5", "+1.5e3", "＝1", "plain", ""]
    decisions = [
        Decision(name, f"{name}!", bool(n % 2), ("keep", "drop", "missing")[n % 3]) for n, name in enumerate(names)
    ]
    path = write_decisions(decisions, tmp_path / "out.csv")
    assert read_decisions(path) == decisions
    with path.open(encoding="utf-8-sig", newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    # A number is harmless; anything else that begins like a formula has an apostrophe before it.
    risky = [cell for cell in cells if cell[:1] in set("=+-@\t\r\n＝＋－＠")]
    assert set(risky) == {"-5", "+1.5e3"}


@pytest.mark.parametrize("comma", [",", ";", "\t"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_a_spreadsheet_may_have_saved_it_again(tmp_path, comma, start):
    text = "Decision,note,Item,label,VERDICT\r\nDROP,so,7,sun,Drop\r\n".replace(",", comma)
    assert read_decisions(written(tmp_path, start + text)) == [Decision("7", "sun", False, "drop", note="so")]


def test_the_same_decision_twice_counts_once(tmp_path):
    text = HEADER + "7,sun,drop,accept,\n7,sun,drop,accept,\n7,sun,keep,reject,\n"
    assert read_decisions(written(tmp_path, text)) == [Decision("7", "sun", False, "drop")]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "decisions.csv has no column 'item' and no column 'label'"),
        ("item,label,verdict\n7,sun,drop\n", r"no column 'decision' \(it has item, label, verdict\)"),
        (HEADER + "7,sun,drop\n", r"line 2 of \S+decisions\.csv has more or fewer cells than the header"),
        (HEADER + "7,sun,drop,yes,\n", r"line 2 of \S+decisions\.csv: the decision is 'yes'; write keep or drop"),
        (
            HEADER + "7,sun,dorp,accept,\n",
            r"line 2 of \S+decisions\.csv: the verdict is 'dorp'; it must be one of",
        ),
        (HEADER + "7,sun,drop,accept,\n7,sun,drop,reject,\n", r"item '7' both has .* label 'sun' .*lines 2 and 3"),
        (HEADER + '7,"sun,drop,accept,\n', "is not CSV: unexpected end of data; download the file again"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path, text, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        read_decisions(written(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_another_encoding_is_named(tmp_path, encoding):
    path = written(tmp_path, HEADER + "café,sun,drop,accept,\n", encoding)
    line = 2 if encoding == "cp1252" else 1
    with pytest.raises(ValueError, match=rf"line {line} of \S+decisions\.csv is not UTF-8 \(byte 0x.*CSV UTF-8"):
        read_decisions(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv is not there; download"):
        read_decisions(tmp_path / "nowhere.csv")


# -- what follows -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["drop", "doubtful", "keep", "missing"])
def test_keep_and_drop_are_about_the_label_accept_and_reject_about_the_verdict(tmp_path, verdict):
    """Files of earlier versions accept or reject; a label without a verdict can be kept or dropped, not accepted."""
    says_true = verdict in ("keep", "missing")
    expected = {"keep": True, "drop": False, "accept": says_true, "reject": not says_true}
    for word, belongs in expected.items():
        (read,) = read_decisions(written(tmp_path, f"{HEADER}7,sun,{verdict},{word},\n"))
        assert read.belongs is belongs
    assert read_decisions(written(tmp_path, HEADER + "7,sun,,keep,\n")) == [Decision("7", "sun", True)]
    with pytest.raises(ValueError, match="the verdict is ''"):
        read_decisions(written(tmp_path, HEADER + "7,sun,,accept,\n"))


def test_the_majority_counts_and_a_tie_is_a_conflict(tmp_path):
    said = {"ann": (True, True, True), "bob": (True, False, False), "eve": (None, False, None)}
    reviews = {
        f"{who}.csv": [
            Decision("7", label, belongs, "drop", note="sure" if who == "bob" else "")
            for label, belongs in zip("abc", votes, strict=True)
            if belongs is not None
        ]
        for who, votes in said.items()
    }
    agreed, conflicts = merge_decisions(reviews.values())
    assert {(each.label, each.belongs) for each in agreed} == {("a", True), ("b", False)}
    assert {each.label for each in conflicts} == {"c"}
    path = write_conflicts(conflicts, reviews, tmp_path / "conflicts.csv")
    assert read_decisions(path) == []
    with path.open(encoding="utf-8-sig", newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["label"], row["verdict"], row["decision"]) == ("c", "drop", "")
    assert row["note"] == "ann: keep; bob: drop (sure)"


def test_decisions_overrule_the_audit_and_the_rest_follows_it():
    report = beaches()
    assert report.cleaned().to_lists() == [["beach", "night"], ["beach", "night", "sunset"]]
    decided = [
        Decision("photo-1", "sunset", True, "drop"),
        Decision("photo-1", "night", False, "doubtful"),
        Decision("photo-2", "night", False, "missing"),
    ]
    assert apply_decisions(report, decided).to_lists() == [["beach", "sunset"], ["beach", "sunset"]]
    assert apply_decisions(report, decided[:1]).to_lists() == [
        ["beach", "night", "sunset"],
        ["beach", "night", "sunset"],
    ]


def test_what_is_undecided_may_stay():
    stays = apply_decisions(beaches(), [Decision("photo-1", "beach", False, "keep")], undecided="keep")
    assert stays.to_lists() == [["night", "sunset"], ["beach", "sunset"]]
    assert apply_decisions(beaches(), [], undecided="keep") == beaches().candidates
    with pytest.raises(ValueError, match="undecided is 'maybe'; choose"):
        apply_decisions(beaches(), [], undecided="maybe")


def test_what_is_undecided_may_go_but_for_what_the_audit_keeps():
    candidates = replace(Candidates.from_lists([["a", "b", "c"], ["a", "b"], ["a", "b"]]), index=("x", "y", "z"))
    # Row x: keep, doubtful, drop. Row y: doubtful and drop. Row z: both doubtful.
    report = AuditReport(candidates, np.array([[0.9, 0.6, 0.1], [0.6, 0.1, 0.0], [0.55, 0.65, 0.0]]))
    assert apply_decisions(report, [], undecided="verdict").to_lists() == [["a", "b"], ["a"], ["a", "b"]]
    # The best label of a row stays, unless a person takes it; then the next best does.
    assert apply_decisions(report, [], undecided="drop").to_lists() == [["a"], ["a"], ["b"]]
    decided = [Decision("x", "c", True, "drop"), Decision("z", "b", False, "doubtful")]
    assert apply_decisions(report, decided, undecided="drop").to_lists() == [["a", "c"], ["a"], ["a"]]


def test_what_is_missing_is_added_only_by_verdict_or_by_a_person():
    report = beaches()
    assert "night" in apply_decisions(report, []).to_lists()[1]
    for undecided in ("keep", "drop"):
        assert "night" not in apply_decisions(report, [], undecided=undecided).to_lists()[1]
        decided = [Decision("photo-2", "night", True, "missing")]
        assert "night" in apply_decisions(report, decided, undecided=undecided).to_lists()[1]


def test_a_row_with_unknown_labels_is_not_emptied_either():
    candidates = Candidates.from_matrix([[1, 1, -1]], labels=["a", "b", "c"])
    report = AuditReport(candidates, np.array([[0.2, 0.1, np.nan]]))
    # The audit drops b; when a person takes a, the undecided b comes back.
    assert apply_decisions(report, [Decision("0", "a", False, "doubtful")]).to_matrix().tolist() == [[0, 1, -1]]


def test_undecided_verdicts_are_counted_by_what_became_of_them():
    report = fake_report(200, seed=5)
    told = report.verdicts()
    some = np.random.default_rng(1).permutation(len(told))[:100]
    decided = [
        Decision(report.item_ids[row], report.label_names[label], verdict in ("keep", "missing"), verdict)
        for row, label, verdict, *_ in told[some]
    ]
    left = {(row, label): verdict for k, (row, label, verdict, *_) in enumerate(told) if k not in set(some.tolist())}
    for undecided in ("verdict", "keep", "drop"):
        after = apply_decisions(report, decided, undecided=undecided)
        has = after.to_matrix() > 0
        counts = review_counts(report, decided, after)
        assert counts.decided == 100
        assert counts.undecided == len(told) - 100
        assert counts.went == sum(verdict != "missing" and not has[cell] for cell, verdict in left.items())
        assert counts.stayed == sum(verdict != "missing" and has[cell] for cell, verdict in left.items())
        assert counts.came == sum(verdict == "missing" and has[cell] for cell, verdict in left.items())
        assert counts.stayed_out == sum(verdict == "missing" and not has[cell] for cell, verdict in left.items())
    assert counts.came == 0 < counts.went
    assert str(counts).endswith(f"0 missing ones were added, {counts.stayed_out} were not")
    some = "2 verdicts decided, 413 undecided: of these 88 labels went, 325 stayed"
    assert str(Reviewed(decided=2, went=88, stayed=325, came=0, stayed_out=0)) == some


def test_nothing_is_said_of_undecided_verdicts_where_there_are_none():
    report = AuditReport(replace(Candidates.from_lists([["a"]]), index=("x",)), np.array([[0.9]]))
    decided = [Decision("x", "a", True, "keep")]
    assert str(review_counts(report, decided, apply_decisions(report, decided))) == "1 verdicts decided, 0 undecided"


def test_candidates_take_decisions_too_and_unknown_becomes_known():
    candidates = Candidates.from_matrix([[1, -1, -1], [1, 1, -1]], labels=["a", "b", "c"])
    after = apply_decisions(candidates, [Decision("0", "b", True, "missing"), Decision("0", "c", False, "missing")])
    assert after.to_matrix().tolist() == [[1, 1, 0], [1, 1, -1]]
    assert after.labels == candidates.labels


def test_votes_and_names_of_rows_are_kept():
    report = fake_report(30)
    after = apply_decisions(report, [Decision("item-00003", "beach", True, "missing")])
    assert after.annotations is report.candidates.annotations
    assert list(after.index) == list(report.item_ids)
    assert "beach" in after.to_lists()[3]


def test_only_a_person_empties_a_row():
    candidates = replace(Candidates.from_lists([["a", "b"], ["a", "b"], ["a", "b"]]), index=("x", "y", "z"))
    report = AuditReport(candidates, np.array([[0.1, 0.15]] * 3))
    # The audit drops a and leaves the more probable b. Once b is gone by hand, the undecided a comes back.
    assert report.cleaned().to_lists() == [["b"], ["b"], ["b"]]
    after = apply_decisions(
        report, [Decision("x", "b", False), Decision("y", "a", False), Decision("y", "b", False)], undecided="verdict"
    )
    assert after.to_lists() == [["a"], [], ["b"]]


def test_strangers_are_named_with_the_nearest_name(tmp_path):
    report = beaches()
    decided = read_decisions(written(tmp_path, HEADER + "photo-3,beach,keep,accept,\n"))
    with pytest.raises(ValueError, match=r"line 2: there is no item 'photo-3' .*; did you mean 'photo-[12]'\?"):
        apply_decisions(report, decided)
    with pytest.raises(ValueError, match=r"^there is no label 'sunsets' in what was audited; did you mean 'sunset'\?$"):
        apply_decisions(report, [Decision("photo-1", "sunsets", False)])
    with pytest.raises(ValueError, match=r"no label 'xyz' .*; are these the decisions or votes of another audit\?"):
        apply_decisions(report, [Decision("photo-1", "xyz", False)])


def test_contradictions_between_two_reviewers_are_named():
    both = [Decision("photo-1", "beach", True, "keep"), Decision("photo-1", "beach", False, "drop")]
    with pytest.raises(ValueError, match="item 'photo-1' both has and has not label 'beach' by two decisions; remove"):
        apply_decisions(beaches(), both)


def test_an_id_of_two_rows_cannot_be_decided_on():
    candidates = replace(Candidates.from_lists([["a"], ["a"], ["a"]]), index=("x", "y", "x"))
    report = AuditReport(candidates, np.full((3, 1), 0.9))
    assert apply_decisions(report, [Decision("y", "a", False)]).to_lists() == [["a"], [], ["a"]]
    with pytest.raises(ValueError, match="several items are called 'x'; audit again with a name"):
        apply_decisions(report, [Decision("x", "a", False)])


def test_many_decisions_equal_plain_loops():
    report = fake_report(200, seed=3)
    rng = np.random.default_rng(0)
    told = report.verdicts()
    expected = report.cleaned().to_matrix().astype(bool)
    decided = []
    for k in rng.permutation(len(told.row))[:400]:
        belongs, verdict = bool(rng.random() < 0.5), str(told.verdict[k])
        item, label = report.item_ids[told.row[k]], report.label_names[told.label[k]]
        decided.append(Decision(item, label, belongs, verdict))
        expected[told.row[k], told.label[k]] = belongs
    after = apply_decisions(report, decided).to_matrix().astype(bool)
    filled = expected.any(axis=1)
    np.testing.assert_array_equal(after[filled], expected[filled])

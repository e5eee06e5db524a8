"""Facts about the review page as a file: what is in it, what is left out, and that nothing in it is markup."""

import base64
import hashlib
import html
import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from fake_report import ANNOTATORS, HOSTILE, LABELS, fake_report, fake_texts, hostile_report
from review_pages import render_review

from propml.auditing.evidence import clipped_texts, feature_lines
from propml.auditing.report import AuditReport
from propml.auditing.review import inert_json, write_review
from propml.targets import Candidates

VERDICTS = ("drop", "doubtful", "missing", "keep")


class Elements(HTMLParser):
    """The elements of a page, as a parser that knows nothing of us sees them."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.scripts, self.open = [], [], None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.open = None

    def handle_data(self, data):
        if self.open == "script":
            self.scripts[-1] += data


def payload(page):
    return json.loads(Elements(page).scripts[0])


def test_every_verdict_is_there():
    report = fake_report(40)
    data, told = payload(render_review(report)), report.verdicts()
    assert [data["items"][n] for n in data["row"]] == [report.item_ids[n] for n in told.row]
    assert [data["labels"][n] for n in data["label"]] == [LABELS[n] for n in told.label]
    assert [VERDICTS[n] for n in data["verdict"]] == told.verdict.tolist()
    np.testing.assert_allclose(np.array(data["probability"]) / 1e4, told.probability, atol=1e-4)
    assert data["counts"] == {name: int((told.verdict == name).sum()) for name in VERDICTS}
    assert data["n_items"] == 40


def test_what_is_nearly_certain_does_not_look_certain():
    candidates = Candidates.from_lists([["a", "b", "c", "d"]])
    report = AuditReport(candidates, np.array([[1e-9, 1 - 1e-9, 0.0, 1.0]]))
    assert payload(render_review(report))["probability"] == [1, 9999, 0, 10000]


def test_votes_are_those_of_the_table():
    report = fake_report(50)
    data, annotations = payload(render_review(report)), report.candidates.annotations
    table = list(zip(annotations.row, annotations.label, annotations.annotator, strict=True))
    for row, label, number in zip(report.verdicts().row, report.verdicts().label, data["voters"], strict=True):
        expected = {annotations.names[who] for i, j, who in table if (i, j) == (row, label)}
        assert {data["annotators"][who] for who in data["voter_sets"][number]} == expected
    looked = [len({who for i, _, who in table if i == row}) for row in range(50)]
    assert data["looked"] == looked


def test_without_votes_there_are_none():
    data = payload(render_review(fake_report(5, annotators=())))
    assert data["voters"] is None
    assert data["annotators"] == []
    assert [table["title"] for table in data["tables"]] == ["Labels"]


def test_reliability_tables_keep_their_kinds():
    labels, annotators = payload(render_review(fake_report(20)))["tables"]
    kinds = {column["name"]: column["kind"] for column in labels["columns"]}
    assert kinds["label"] == "text"
    assert kinds["candidates"] == kinds["drop"] == kinds["missing"] == "count"
    assert kinds["share true"] == kinds["false positive rate"] == "share"
    assert annotators["columns"][0] == {"name": "annotator", "kind": "text"}
    assert [row[0] for row in labels["rows"]] == list(LABELS)
    assert [row[0] for row in annotators["rows"]] == list(ANNOTATORS)


def test_a_rate_that_is_not_known_is_null():
    report = fake_report(5)
    report.annotators = lambda library: {"annotator": ["a", "b"], "rate": [0.5, float("nan")]}
    table = payload(render_review(report))["tables"][1]
    assert [column["kind"] for column in table["columns"]] == ["text", "share"]
    assert table["rows"] == [["a", 0.5], ["b", None]]


def test_the_tables_need_neither_pandas_nor_polars(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)  # an import of it fails
    monkeypatch.setitem(sys.modules, "polars", None)
    assert payload(render_review(fake_report(5)))["tables"]


def test_the_most_suspicious_verdicts_stay():
    report = fake_report(100)
    data, told = payload(render_review(report, max_verdicts=60)), report.verdicts()
    assert len(data["row"]) == 60
    suspicion = np.where(told.verdict == "missing", told.probability, 1 - told.probability)
    suspicion[told.verdict == "keep"] -= 1
    worst = set(np.argsort(-suspicion)[:60].tolist())
    expected = {(report.item_ids[told.row[k]], LABELS[told.label[k]]) for k in worst}
    held = {(data["items"][i], data["labels"][j]) for i, j in zip(data["row"], data["label"], strict=True)}
    assert held == expected
    # What is told of the whole audit is not told of the page.
    assert sum(data["counts"].values()) == len(told.row)
    assert data["lead"].endswith(f"This page holds the 60 most suspicious of {len(told)} verdicts.")
    assert "holds" not in payload(render_review(report))["lead"]


def test_large_numbers_in_the_lead_are_grouped_and_nothing_else_is_changed():
    lead = payload(render_review(fake_report(1200, 1, missing=False), max_verdicts=1100))["lead"]
    assert lead.endswith("This page holds the 1\u202f100 most suspicious of 1\u202f200 verdicts.")
    assert lead.startswith("Every label was judged by models that never saw its item. Keep")


def test_the_audit_s_name_depends_on_verdicts_and_nothing_else():
    name = payload(render_review(fake_report(20)))["id"]
    assert payload(render_review(fake_report(20), texts=fake_texts(20), title="Another"))["id"] == name
    assert payload(render_review(fake_report(20, seed=1)))["id"] != name
    assert payload(render_review(fake_report(20, ids=[f"i{n}" for n in range(20)])))["id"] != name
    assert re.fullmatch("[0-9a-f]{16}", name)


def test_names_must_be_names():
    with pytest.raises(ValueError, match="several items are called 'x'; decisions go by name, so give every"):
        render_review(fake_report(3, ids=["x", "y", "x"]))
    report = fake_report(3, labels=[1, "1", 2, 3])
    with pytest.raises(ValueError, match="several labels are called '1'"):
        render_review(report)


# -- hostile content ------------------------------------------------------------------------------------------------


def test_hostile_content_adds_no_element():
    tame = fake_report(
        len(HOSTILE), 2, labels=[f"l{n}" for n in range(len(HOSTILE))], annotators=("a", "b", "c", "d"), missing=False
    )
    quiet = Elements(render_review(tame, texts=["-"] * len(HOSTILE), title="x"))
    loud = Elements(render_review(hostile_report(), texts=HOSTILE, title=HOSTILE[1]))
    policy = [tag for tag in quiet.tags if "http-equiv" in tag[1]]
    assert quiet.tags == loud.tags
    assert len(policy) == 1
    assert len(loud.scripts) == 2
    assert quiet.scripts[1] == loud.scripts[1]


def test_hostile_content_arrives_unchanged():
    data = payload(render_review(hostile_report(), texts=HOSTILE))
    assert data["labels"] == list(HOSTILE)
    assert data["texts"] == list(HOSTILE)
    assert data["annotators"] == list(HOSTILE[:4])


@pytest.mark.parametrize("text", [*HOSTILE, "\ud800 half a pair", "\x00 and \x1b"])
def test_json_in_a_script_is_inert_and_the_same(text):
    written = inert_json({text: [text]})
    assert json.loads(written) == {text: [text]}
    assert not set("<>&\u2028\u2029") & set(written)
    written.encode("utf-8")


def test_the_policy_admits_this_script_and_this_style_only():
    page = render_review(fake_report(3))
    policy = next(tag for tag in Elements(page).tags if "http-equiv" in tag[1])[1]["content"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    script = page[page.rindex("<script>") + 8 : page.rindex("</script>")]
    style = page[page.index("<style>") + 7 : page.index("</style>")]
    for name, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["img-src"] == "data:"
    # Nothing stands before the policy that it should have governed.
    assert page.index("Content-Security-Policy") < page.index("<title>")


def test_the_script_never_makes_markup_from_text():
    script = Elements(render_review(fake_report(3))).scripts[1]
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "</script"):
        assert way not in script


# -- what an item says of itself ------------------------------------------------------------------------------------


def test_texts_are_cut_to_make_a_page_that_opens():
    rows = np.arange(2)
    short, long = clipped_texts(["word", "x" * 30_000], rows)
    assert short == "word"
    assert long == "x" * 20_000 + "… (10000 more characters)"
    many = clipped_texts(["y" * 1000] * 50_000, np.arange(50_000))
    assert many[0] == "y" * 400 + "… (600 more characters)"
    assert clipped_texts(pd.Series(["b", None, float("nan")], index=[5, 6, 7]), np.arange(3)) == ["b", "", ""]


def test_texts_go_with_their_items():
    report = fake_report(100)
    texts = [f"text of {name}" for name in report.item_ids]
    data = payload(render_review(report, texts=texts, max_verdicts=20))
    assert data["texts"] == [f"text of {name}" for name in data["items"]]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_first_features_of_a_frame(frame):
    table = frame({"width": [1.0, 2.5], "kind": ["a", "b" * 80], "n": [3, 4]} | {f"z{n}": [0, 0] for n in range(9)})
    line = feature_lines(table, np.array([1]))[0]
    assert line == f"width 2.5 · kind {'b' * 60}… (20 more characters) · n 4 · z0 0 · z1 0 · z2 0"


def test_first_features_of_arrays():
    assert feature_lines(np.array([[1.5, 2.0], [0.123456, np.nan]]), np.array([1])) == ["x0 0.1235 · x1 missing"]
    dense = np.arange(20.0).reshape(2, 10) / 3
    assert feature_lines(dense, np.array([1])) == ["x0 3.333 · x1 3.667 · x2 4 · x3 4.333 · x4 4.667 · x5 5"]
    sparse = sp.csr_array(np.array([[0, 0, 7, 0], [0, 0, 0, 0]]))
    assert feature_lines(sparse, np.array([0, 1])) == ["x2 7", ""]


def test_features_show_where_there_is_neither_text_nor_picture():
    features = np.full((3, 2), 0.5)
    assert payload(render_review(fake_report(3), features=features))["texts"] == ["x0 0.5 · x1 0.5"] * 3
    assert payload(render_review(fake_report(3), features=features, texts=["a", "b", "c"]))["texts"] == ["a", "b", "c"]
    assert payload(render_review(fake_report(3)))["texts"] is None


# -- the file ---------------------------------------------------------------------------------------------------------


def test_the_page_is_one_file_without_addresses(tmp_path):
    path = write_review(fake_report(3), tmp_path / "deep" / "review.html", title="A & B <c>")
    page = path.read_text(encoding="utf-8")
    assert f"<title>{html.escape('A & B <c>')}</title>" in page
    assert list(path.parent.iterdir()) == [path]
    addresses = [attributes.get(name) for _, attributes in Elements(page).tags for name in ("src", "href", "action")]
    assert set(addresses) == {None, "data:,"}
    assert "http" not in page.replace("http-equiv", "")

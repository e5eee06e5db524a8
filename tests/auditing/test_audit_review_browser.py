"""Facts about the review page in a real browser: it filters, sorts, takes decisions, keeps them and gives them out."""

import re

import pytest
from fake_report import fake_report
from review_pages import (
    by_confidence,
    current,
    decided_in,
    downloaded,
    entries,
    expected,
    press,
    suspicious,
    until,
    voters_of,
    without_time,
)

from propml.auditing.decisions import Decision, apply_decisions, read_decisions, write_decisions
from propml.auditing.review import write_review

# -- opening ----------------------------------------------------------------------------------------------------------


def test_opens_with_the_suspicious_most_certain_first(opened, report):
    page = opened()
    assert entries(page) == expected(report, suspicious, by_confidence)
    told = report.verdicts().verdict
    tiles = page.eval_on_selector_all(
        ".tile", "all => all.map(t => [t.children[0].innerText, t.children[1].innerText])"
    )
    assert tiles == [
        ["Candidates", str(3 * len(report.item_ids))],
        *([name.capitalize(), str((told == name).sum())] for name in ("drop", "doubtful", "keep", "missing")),
    ]
    assert page.inner_text("#progress") == f"{(told != 'keep').sum()} shown · 0 decided"


def test_an_entry_tells_all_there_is(opened, report, texts):
    page = opened()
    item, label, _ = current(page)
    row, column = report.item_ids.index(item), report.label_names.index(label)
    entry = page.locator(".entry.current")
    names = voters_of(report)[item, label]
    voters = entry.locator(".voters").inner_text()
    assert set(re.split(", ", voters.split(": ")[1])) == names
    assert voters.startswith(f"{len(names)} of {report.candidates.voters[row]} votes: ")
    assert entry.locator(".text").inner_text() == texts[row]
    share = entry.evaluate(
        "e => { const w = (s) => e.querySelector(s).getBoundingClientRect().width; return w('.fill') / w('.track'); }"
    )
    # Two pixels are left of a bar of length zero.
    assert share == pytest.approx(report.probabilities[row, column], abs=0.02)


# -- filters and order ------------------------------------------------------------------------------------------------


def test_filters_by_verdict(opened, report):
    page = opened()
    page.click(".chip.doubtful")
    page.click(".chip.missing")
    assert entries(page) == expected(report, lambda *row: row[2] == "drop", by_confidence)
    page.click(".chip.drop")
    assert entries(page) == []
    assert page.is_visible("#none")
    page.click("#widen")
    assert len(entries(page)) == len(report.verdicts().row)


def test_filters_by_label_annotator_confidence_and_text_together(opened, report, texts):
    page = opened()
    page.click("#all")
    page.select_option("#label", label="people")
    assert entries(page) == expected(report, lambda *row: row[1] == "people", by_confidence)
    page.select_option("#annotator", label="carla")
    votes = voters_of(report)

    def fits(item, label, verdict, sure, chance):
        return label == "people" and "carla" in votes.get((item, label), ()) and 0.6 <= sure <= 0.95

    page.fill("#from", "60")
    page.fill("#to", "95")
    wanted = expected(report, fits, by_confidence)
    assert 2 < len(wanted) < len(report.verdicts().row)
    assert entries(page) == wanted
    page.fill("#search", "  TENT stands ")
    has = {name for name, text in zip(report.item_ids, texts, strict=True) if "tent stands" in text}
    found = entries(page)
    assert found == [row for row in wanted if row[0] in has]
    assert 0 < len(found) < len(wanted)
    page.click("#all")
    assert len(entries(page)) == len(report.verdicts().row)


def test_search_finds_items_and_labels(opened, report):
    page = opened()
    page.click("#all")
    page.fill("#search", "item-00017")
    assert entries(page) == expected(report, lambda *row: row[0] == "item-00017", by_confidence)
    page.fill("#search", "UNTAIN")
    in_label = expected(report, lambda *row: row[1] == "mountain")
    assert in_label
    assert {tuple(row) for row in in_label} <= {tuple(row) for row in entries(page)}


def test_filters_by_decision(opened):
    page = opened()
    first, second = entries(page)[:2]
    press(page, "ar")
    page.select_option("#decision", label="Accepted")
    assert entries(page) == [first]
    page.select_option("#decision", label="Rejected")
    assert entries(page) == [second]
    page.select_option("#decision", label="Undecided")
    assert first not in entries(page)


@pytest.mark.parametrize(
    ("by", "order"),
    [
        ("probability", lambda row, place: (round(1e4 * row[4]), place)),
        ("label", lambda row, place: (row[1], -round(1e4 * row[3]), place)),
        ("item", lambda row, place: (row[0], place)),
    ],
)
def test_sorts_both_ways(opened, report, by, order):
    page = opened()
    page.select_option("#sort", by)
    rising = entries(page)
    assert rising == expected(report, suspicious, order)
    page.click("#direction")
    assert entries(page) == rising[::-1]


def test_reliability_tables_sort_and_lead_to_the_verdicts(opened, report):
    page = opened()
    page.click("#reliability > summary")
    head = page.locator("#tables table").first.locator("th").nth(1)
    column = "rows => rows.map(row => row.cells[1].innerText)"
    before = page.locator("#tables table").first.locator("tbody tr").evaluate_all(column)
    head.locator("button").click()
    after = page.locator("#tables table").first.locator("tbody tr").evaluate_all(column)
    assert head.get_attribute("aria-sort") == "descending"
    assert [int(n) for n in after] == sorted(map(int, before), reverse=True)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    page.get_by_role("button", name="gpt-tagger").click()
    votes = voters_of(report)
    assert entries(page) == expected(
        report, lambda *row: suspicious(*row) and "gpt-tagger" in votes.get(row[:2], ()), by_confidence
    )


# -- deciding ---------------------------------------------------------------------------------------------------------


def test_the_keyboard_moves_and_focus_is_seen(opened):
    page = opened()
    order = entries(page)
    assert current(page) == order[0]
    press(page, ["j", "ArrowDown", "j"])
    assert current(page) == order[3]
    press(page, ["k", "ArrowUp"])
    assert current(page) == order[1]
    focused = "document.activeElement"
    assert page.evaluate(f"{focused}.querySelector('.id').textContent") == order[1][0]
    assert page.evaluate(f"getComputedStyle({focused}).outlineStyle") == "solid"
    press(page, "kkkk")
    assert current(page) == order[0]
    press(page, "j" * (len(order) + 5))
    assert current(page) == order[-1]
    box, tools = page.locator(".entry.current").bounding_box(), page.locator("#tools").bounding_box()
    assert box["y"] >= tools["y"] + tools["height"]
    assert box["y"] + box["height"] <= 900


def test_accept_reject_and_undo_by_keyboard(opened):
    page = opened()
    order = entries(page)
    press(page, "arA")
    assert current(page) == order[3]
    assert page.inner_text("#progress").endswith("3 decided")

    def states():
        return page.eval_on_selector_all(".entry", "all => all.slice(0, 4).map(each => each.dataset.decision)")

    assert states() == ["accepted", "rejected", "accepted", "open"]
    press(page, "k")
    press(page, "r")
    assert states() == ["accepted", "rejected", "rejected", "open"]
    press(page, "u")
    assert states() == ["accepted", "rejected", "accepted", "open"]
    assert current(page) == order[2]
    press(page, "uuuu")
    assert states() == ["open"] * 4
    assert page.inner_text("#toast") == "Nothing to undo"
    assert page.is_disabled("#download")


def test_letters_typed_into_the_search_decide_nothing(opened):
    page = opened()
    press(page, "/")
    page.keyboard.type("rua")
    assert page.input_value("#search") == "rua"
    press(page, ["Escape"])
    assert page.input_value("#search") == "rua"
    page.fill("#search", "")
    press(page, ["Escape", "Control+a"])
    assert page.inner_text("#progress").endswith("0 decided")
    press(page, "a")
    assert page.inner_text("#progress").endswith("1 decided")


def test_a_key_that_is_held_down_decides_once(opened):
    page = opened()
    for _ in range(5):
        page.keyboard.down("a")
    page.keyboard.up("a")
    assert page.inner_text("#progress").endswith("1 decided")


def test_nothing_is_decided_out_of_sight(opened):
    page = opened()
    entries(page)
    page.evaluate("scrollTo(0, 4000)")
    until(page, "Number(document.querySelector('.entry').dataset.position) > 10")
    press(page, "a")
    assert page.inner_text("#progress").endswith("0 decided")
    at = page.evaluate("Number(document.querySelector('.entry.current').dataset.position)")
    assert at > 10
    press(page, "a")
    assert page.inner_text("#progress").endswith("1 decided")


def test_help_and_the_whole_item(opened, report, texts):
    page = opened()
    press(page, "?")
    assert page.is_visible("#keys")
    press(page, "a")
    press(page, ["Escape"])
    assert not page.is_visible("#keys")
    assert page.inner_text("#progress").endswith("0 decided")
    page.click("#help")
    page.click("#keys .close")
    assert not page.is_visible("#keys")
    press(page, "jk")
    item = current(page)[0]
    press(page, ["Enter"])
    row = report.item_ids.index(item)
    assert page.inner_text("#whole-id") == item
    assert page.inner_text("#whole-text") == texts[row]
    labels = page.eval_on_selector_all("#whole-verdicts tr", "rows => rows.map(row => row.cells[0].innerText)")
    assert labels == [each[1] for each in expected(report, lambda *row: row[0] == item)]
    press(page, "a")
    assert not page.is_visible("#whole")
    assert page.inner_text("#progress").endswith("1 decided")


# -- keeping and giving out -------------------------------------------------------------------------------------------


def test_decisions_survive_a_reload_and_download_as_what_was_decided(opened, report, tmp_path):
    page = opened()
    order, keys = entries(page), "aararraaar"
    press(page, keys)
    page.reload()
    assert page.inner_text("#progress").endswith("10 decided")
    read = read_decisions(downloaded(page, tmp_path))
    assert without_time(read) == without_time(decided_in(order, keys))
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", each.decided_at) for each in read)
    after = apply_decisions(report, read).to_lists()
    for each in read:
        assert (each.label in after[report.item_ids.index(each.item)]) == each.belongs


def test_two_audits_do_not_share_decisions_and_two_tabs_do(opened, address, tmp_path):
    page = opened()
    press(page, "ar")
    beside = page.context.new_page()
    beside.goto(address)
    assert beside.inner_text("#progress").endswith("2 decided")
    page.bring_to_front()
    press(page, "a")
    until(beside, "document.querySelector('#progress').textContent.endsWith('3 decided')")
    other = write_review(fake_report(60, seed=1), tmp_path / "other.html")
    beside.goto(other.as_uri())
    assert beside.inner_text("#progress").endswith("0 decided")


def test_a_download_can_be_loaded_elsewhere_and_taken_back(opened, tmp_path):
    page = opened()
    press(page, "arra")
    path = downloaded(page, tmp_path)
    other = opened()
    press(other, "rr")
    other.set_input_files("#file", path)
    until(other, "document.querySelector('#progress').textContent.endsWith('4 decided')")
    assert without_time(read_decisions(downloaded(other, tmp_path))) == without_time(read_decisions(path))
    press(other, "u")
    assert other.inner_text("#progress").endswith("2 decided")


def test_loading_is_about_labels_and_knows_strangers(opened, report, tmp_path):
    page = opened()
    item, label, verdict = entries(page)[0]
    assert verdict == "drop"
    # Another audit said keep, and that was rejected: the label does not belong, so here drop is accepted.
    told = [Decision(item, label, False, "keep"), Decision("nobody", label, True), Decision(item, "nothing", True)]
    page.set_input_files("#file", write_decisions(told, tmp_path / "told.csv"))
    until(page, "document.querySelector('#toast').textContent.startsWith('Loaded')")
    assert page.inner_text("#toast") == "Loaded 1 decisions; 2 belong to nothing on this page"
    assert page.locator(".entry").first.get_attribute("data-decision") == "accepted"
    (tmp_path / "other.csv").write_text("a;b\n1;2\n")
    page.set_input_files("#file", tmp_path / "other.csv")
    until(page, "document.querySelector('#toast').textContent.startsWith('This file lacks')")


def test_without_storage_there_is_a_notice_and_a_download(opened, tmp_path):
    page = opened(before="Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } });")
    assert not page.is_visible("#notice")
    order = entries(page)
    press(page, "ar")
    assert "download them before you close" in page.inner_text("#notice")
    assert without_time(read_decisions(downloaded(page, tmp_path))) == without_time(decided_in(order, "ar"))

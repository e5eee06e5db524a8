"""Facts about the review page in a real browser: it filters, sorts, takes decisions, keeps them and gives them out."""

import re

import numpy as np
import pytest
from fake_report import fake_report
from review_pages import (
    by_suspicion,
    current,
    decided_in,
    downloaded,
    entries,
    expected,
    press,
    reviewed,
    suspicious,
    until,
    voters_of,
    without_time,
)

from propml.auditing.decisions import Decision, apply_decisions, read_decisions, write_decisions
from propml.auditing.review import write_review
from propml.auditing.verdicts import VERDICTS

# -- opening ----------------------------------------------------------------------------------------------------------


def test_by_label_opens_with_what_is_most_suspicious(opened, report):
    page = opened()
    assert entries(page) == expected(report, suspicious, by_suspicion)
    told = report.verdicts().verdict
    assert page.inner_text("#progress") == f"0 of {(told != 'keep').sum()} reviewed"
    page.click("#open-about")
    tiles = page.eval_on_selector_all(
        ".tile", "all => all.map(t => [t.children[0].innerText, t.children[1].innerText])"
    )
    assert tiles == [
        ["Candidates", str(3 * len(report.item_ids))],
        *([name.capitalize(), str((told == name).sum())] for name in ("drop", "doubtful", "keep", "missing")),
    ]


def test_by_item_a_card_holds_all_labels_of_an_item_the_most_suspicious_first(opened, report):
    page = opened("item")
    found = entries(page)
    order = list(dict.fromkeys(row[0] for row in expected(report, suspicious, by_suspicion)))
    assert found == [row for item in order for row in expected(report, lambda i, *_, own=item: i == own, by_suspicion)]
    assert {row[2] for row in found} == {"keep", "drop", "doubtful", "missing"}
    assert current(page) == found[0]


def test_a_label_tells_all_there_is(opened, report, texts):
    page = opened()
    item, label, _ = current(page)
    row = report.item_ids.index(item)
    names = voters_of(report)[item, label]
    press(page, ["Enter"])
    chance, votes, telling = page.inner_text("#more-why").split(" · ")
    probability = report.probabilities[row, report.label_names.index(label)]
    assert float(chance.split("\u202f")[0]) == pytest.approx(100 * probability, abs=0.1)
    assert set(votes.split(": ")[1].split(", ")) == names
    assert votes.startswith(f"{len(names)} of {report.candidates.voters[row]} votes: ")
    assert telling.startswith(("for it: ", "no word"))
    assert page.inner_text("#more-text") == texts[row]


# -- filters and order ------------------------------------------------------------------------------------------------


def test_filters_by_verdict(opened, report):
    page = opened()
    page.click(".chip.doubtful")
    page.click(".chip.missing")
    assert entries(page) == expected(report, lambda *row: row[2] == "drop", by_suspicion)
    page.click(".chip.drop")
    assert entries(page) == []
    assert page.is_visible("#none")
    page.click("#widen")
    assert len(entries(page)) == len(report.verdicts().row)


def test_filters_work_together_and_the_address_holds_them(opened, report, texts):
    page = opened()
    page.click("#all")
    page.select_option("#label", label="people")
    assert entries(page) == expected(report, lambda *row: row[1] == "people", by_suspicion)
    page.select_option("#annotator", label="carla")
    votes = voters_of(report)

    def fits(item, label, verdict, sure, chance):
        return label == "people" and "carla" in votes.get((item, label), ()) and 0.1 <= chance <= 0.95

    page.fill("#from", "10")
    page.fill("#to", "95")
    wanted = expected(report, fits, by_suspicion)
    assert 2 < len(wanted) < len(report.verdicts().row)
    assert entries(page) == wanted
    page.fill("#search", "  TENT stands ")
    has = {name for name, text in zip(report.item_ids, texts, strict=True) if "tent stands" in text}
    found = entries(page)
    assert found == [row for row in wanted if row[0] in has]
    assert 0 < len(found) < len(wanted)
    again = opened(url=page.url)
    assert entries(again) == found
    assert again.input_value("#from") == "10"
    again.click("#all")
    assert len(entries(again)) == len(report.verdicts().row)


def test_search_finds_items_and_labels(opened, report):
    page = opened()
    page.click("#all")
    page.fill("#search", "item-00017")
    assert entries(page) == expected(report, lambda *row: row[0] == "item-00017", by_suspicion)
    page.fill("#search", "UNTAIN")
    in_label = expected(report, lambda *row: row[1] == "mountain")
    assert in_label
    assert {tuple(row) for row in in_label} <= {tuple(row) for row in entries(page)}


def test_filters_by_decision(opened):
    page = opened()
    first, second = entries(page)[:2]
    press(page, "kd")
    for state, wanted in (("Kept", [first]), ("Dropped", [second]), ("With a note", [])):
        page.select_option("#decision", label=state)
        assert entries(page) == wanted
    page.select_option("#decision", label="Undecided")
    assert first not in entries(page)


@pytest.mark.parametrize(
    ("by", "order"),
    [
        ("doubt", lambda row, place: (abs(2 * round(1e4 * row[4]) - 1e4), place)),
        ("label", lambda row, place: (row[1], by_suspicion(row, place))),
        ("item", lambda row, place: place),
    ],
)
def test_sorts(opened, report, by, order):
    page = opened()
    page.select_option("#sort", by)
    assert entries(page) == expected(report, suspicious, order)


def test_reliability_tables_sort_and_lead_to_the_labels(opened, report):
    page = opened()
    page.click("#open-about")
    head = page.locator("#tables table").first.locator("th").nth(1)
    column = "rows => rows.map(row => row.cells[1].innerText)"
    before = page.locator("#tables table").first.locator("tbody tr").evaluate_all(column)
    head.locator("button").click()
    after = page.locator("#tables table").first.locator("tbody tr").evaluate_all(column)
    assert head.get_attribute("aria-sort") == "descending"
    assert [int(n) for n in after] == sorted(map(int, before), reverse=True)
    page.get_by_role("button", name="gpt-tagger").click()
    votes = voters_of(report)
    assert entries(page) == expected(
        report, lambda *row: suspicious(*row) and "gpt-tagger" in votes.get(row[:2], ()), by_suspicion
    )


# -- deciding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["label", "item"])
def test_the_keyboard_moves_over_what_is_filtered_and_focus_is_seen(opened, report, view):
    page = opened(view)
    order = [row for row in entries(page) if row[2] != "keep"]
    assert current(page) == order[0]
    press(page, [" ", "ArrowDown", " "])
    assert current(page) == order[3]
    press(page, ["ArrowUp", "ArrowUp"])
    assert current(page) == order[1]
    focused = "document.activeElement"
    assert page.evaluate(f"{focused}.querySelector('.name').textContent") == order[1][1]
    assert page.evaluate(f"getComputedStyle({focused}).outlineStyle") == "solid"
    press(page, ["ArrowUp"] * 4)
    assert current(page) == order[0]
    press(page, [" "] * (len(order) + 5))
    assert current(page) == order[-1]
    box, tools = page.locator(".label.current").bounding_box(), page.locator("#tools").bounding_box()
    assert box["y"] >= tools["y"] + tools["height"]
    assert box["y"] + box["height"] <= 800


def test_keep_drop_and_undo_by_keyboard_mean_the_same_for_every_verdict(opened, report, tmp_path):
    page = opened()
    page.click("#all")
    page.select_option("#sort", "item")
    order = entries(page)
    order = order[: max(map([row[2] for row in order].index, VERDICTS)) + 1]  # until each was there
    n = len(order)
    press(page, "k" * n)
    assert all(each.belongs for each in read_decisions(downloaded(page, tmp_path)))
    press(page, "u" * n)
    assert page.is_disabled("#download")
    press(page, "D" * n)
    assert without_time(read_decisions(downloaded(page, tmp_path))) == without_time(decided_in(order, "d" * n))
    press(page, "u" * (n + 1))
    assert page.inner_text("#toast") == "Nothing to undo"
    assert current(page) == order[0]


def test_keys_are_printed_where_they_act(opened):
    page = opened("item")
    shown = page.eval_on_selector_all("button kbd", "all => all.filter(k => k.offsetWidth).map(k => k.innerText)")
    assert sorted(shown) == ["d", "k", "u"]
    assert page.locator(".label.current kbd").all_inner_texts() == ["k", "d"]


def test_all_that_is_shown_is_decided_at_once_and_taken_back_at_once(opened, report, tmp_path):
    page = opened()
    press(page, "k")
    page.select_option("#label", label="people")
    page.fill("#below", "20")
    page.click("[data-bulk=below]")
    low = expected(report, lambda *row: row[1] == "people" and row[2] != "keep" and round(1e4 * row[4]) < 2000)
    assert len(low) > 1
    decided = read_decisions(downloaded(page, tmp_path))
    assert {(each.item, each.label) for each in decided if not each.belongs} == {tuple(row[:2]) for row in low}
    assert page.inner_text("#toast") == f"Dropped: {len(low)} labels"
    page.click("#undo")
    assert len(read_decisions(downloaded(page, tmp_path))) == 1
    page.click("[data-bulk='1']")
    both = read_decisions(downloaded(page, tmp_path))
    assert all(each.belongs for each in both)
    assert len(both) >= len(expected(report, lambda *row: row[1] == "people" and row[2] != "keep"))


def test_a_label_is_exchanged_for_another_in_one_step_and_bears_a_note(opened, report, tmp_path):
    page = opened("item")
    item, label, verdict = current(page)
    own = report.item_ids.index(item)
    other = next(name for j, name in enumerate(report.label_names) if report.candidates.to_matrix()[own, j] == 0)
    press(page, ["Enter"])
    page.fill("#note", "it is, =really")
    page.locator("#note").blur()
    page.select_option("#rather", label=other)
    assert not page.is_visible("#more")
    decided = read_decisions(downloaded(page, tmp_path))
    assert without_time(decided) >= {(item, label, False, verdict, "it is, =really")}
    assert {(each.item, each.label, each.belongs) for each in decided} == {(item, label, False), (item, other, True)}
    assert page.locator(".entry").first.locator(".label").last.locator(".name").inner_text() == other
    after = apply_decisions(report, decided).to_lists()[own]
    assert other in after
    assert label not in after
    page.reload()
    page.select_option("#decision", label="With a note")
    assert current(page) == [item, label, verdict]
    page.select_option("#decision", value="")
    assert page.locator(".entry").first.locator(".label").last.locator(".name").inner_text() == other


def test_progress_tells_the_time_left_after_a_few(opened):
    page = opened()
    press(page, "kdkd")
    assert re.fullmatch(r"4 of \d+ reviewed", page.inner_text("#progress"))
    press(page, "kd")
    assert re.fullmatch(r"6 of \d+ reviewed, about \d+ minutes? left", page.inner_text("#progress"))


def test_letters_typed_into_the_search_decide_nothing(opened):
    page = opened()
    press(page, "/")
    page.keyboard.type("duk ")
    assert page.input_value("#search") == "duk "
    press(page, ["Escape"])
    assert page.input_value("#search") == "duk "
    page.fill("#search", "")
    press(page, ["Escape", "Control+k"])
    assert reviewed(page) == 0
    press(page, "k")
    assert reviewed(page) == 1


def test_a_key_that_is_held_down_decides_once_and_space_after_a_click_goes_on(opened):
    page = opened()
    for _ in range(5):
        page.keyboard.down("k")
    page.keyboard.up("k")
    assert reviewed(page) == 1
    order = entries(page)
    page.locator(".entry .drop").nth(3).click()
    press(page, [" "])
    assert reviewed(page) == 2
    assert current(page) == order[4]


def test_nothing_is_decided_out_of_sight(opened):
    page = opened()
    entries(page)
    page.evaluate("scrollTo(0, 3000)")
    until(page, "Number(document.querySelector('.entry').ariaPosInSet) > 10")
    press(page, "d")
    assert reviewed(page) == 0
    assert page.evaluate("Number(document.querySelector('.entry.current').ariaPosInSet)") > 10
    press(page, "d")
    assert reviewed(page) == 1


def test_words_that_speak_for_a_label_are_marked(opened, tmp_path):
    report = fake_report(60, seed=2)
    told = report.verdicts()
    texts = [["quiet hall", "empty square"][i % 2] for i in range(60)]
    for i in np.flatnonzero(report.probabilities[:, 7] > 0.3):
        texts[i] += ", Snow."
    path = write_review(report, tmp_path / "words.html", texts=texts)
    page = opened(url=f"{path.as_uri()}#view=label&label=snow&verdicts=keep,doubtful")
    assert ((told.label == 7) & (told.verdict == "keep")).any()
    assert set(page.locator(".entry mark").all_inner_texts()) == {"Snow"}
    assert "for it: snow" in page.inner_text(".label.current .why")


def test_true_examples_stand_beside_a_doubtful_label(opened, tmp_path):
    report = fake_report(60)
    told = report.verdicts()
    vectors = np.random.default_rng(0).normal(size=(60, 4))
    page = opened("item", url=write_review(report, tmp_path / "near.html", vectors=vectors).as_uri())
    item, label, _ = current(page)
    unit = (vectors - vectors.mean(axis=0)) / vectors.std(axis=0)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    likeness = unit @ unit[report.item_ids.index(item)]
    kept = [i for i, j, verdict, *_ in told if verdict == "keep" and report.label_names[j] == label]
    nearest = [report.item_ids[i] for i in sorted(kept, key=lambda i: -likeness[i])[:3]]
    assert page.locator(".entry.current .near figcaption").all_inner_texts() == nearest
    assert page.inner_text(".entry.current .near h3") == f"True examples of {label}"


# -- keeping and giving out -------------------------------------------------------------------------------------------


def test_decisions_survive_a_reload_and_download_as_what_was_decided(opened, report, tmp_path):
    page = opened()
    order, keys = entries(page), "kkdkddkkkd"
    press(page, keys)
    page.reload()
    assert reviewed(page) == 10
    read = read_decisions(downloaded(page, tmp_path))
    assert without_time(read) == without_time(decided_in(order, keys))
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", each.decided_at) for each in read)
    after = apply_decisions(report, read).to_lists()
    for each in read:
        assert (each.label in after[report.item_ids.index(each.item)]) == each.belongs


def test_two_audits_do_not_share_decisions_and_two_tabs_do(opened, address, tmp_path):
    page = opened()
    press(page, "kd")
    until(page, "localStorage.length > 0")
    beside = page.context.new_page()
    beside.goto(address)
    assert reviewed(beside) == 2
    page.bring_to_front()
    press(page, "k")
    until(beside, "document.querySelector('#progress').textContent.startsWith('3 of')")
    other = write_review(fake_report(60, seed=1), tmp_path / "other.html")
    beside.goto(other.as_uri())
    assert reviewed(beside) == 0


def test_a_download_can_be_loaded_elsewhere_and_taken_back(opened, tmp_path):
    page = opened()
    press(page, "kddk")
    path = downloaded(page, tmp_path)
    other = opened()
    press(other, "dd")
    other.set_input_files("#file", path)
    until(other, "document.querySelector('#progress').textContent.startsWith('4 of')")
    assert without_time(read_decisions(downloaded(other, tmp_path))) == without_time(read_decisions(path))
    press(other, "u")
    assert reviewed(other) == 2


def test_loading_is_about_labels_and_knows_strangers_and_older_files(opened, tmp_path):
    page = opened()
    item, label, verdict = entries(page)[0]
    assert verdict == "drop"
    told = [Decision(item, label, False, "keep"), Decision("nobody", label, True), Decision(item, "nothing", True)]
    page.set_input_files("#file", write_decisions(told, tmp_path / "told.csv"))
    until(page, "document.querySelector('#toast').textContent.startsWith('Loaded')")
    assert page.inner_text("#toast") == "Loaded 1 decision; 2 belong to nothing on this page"
    assert page.locator(".label").first.get_attribute("data-decision") == "dropped"
    (tmp_path / "old.csv").write_text(f"item,label,verdict,decision\n{item},{label},doubtful,reject\n")
    page.set_input_files("#file", tmp_path / "old.csv")
    until(page, "document.querySelector('.label').dataset.decision === 'kept'")
    (tmp_path / "other.csv").write_text("a;b\n1;2\n")
    page.set_input_files("#file", tmp_path / "other.csv")
    until(page, "document.querySelector('#toast').textContent.startsWith('This file lacks')")


def test_without_storage_there_is_a_notice_and_a_download(opened, tmp_path):
    page = opened(before="Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } });")
    assert not page.is_visible("#notice")
    order = entries(page)
    press(page, "kd")
    until(page, "!document.querySelector('#notice').hidden")
    assert "download your decisions before you close" in page.inner_text("#notice")
    assert without_time(read_decisions(downloaded(page, tmp_path))) == without_time(decided_in(order, "kd"))

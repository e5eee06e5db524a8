"""Facts about the review page on screens: large and small, light and dark, with pictures, with very many rows."""

import re

import pytest
from fake_report import fake_pictures, fake_report, fake_texts
from review_pages import decided_in, downloaded, entries, press, until, without_time

from propml.auditing.decisions import read_decisions
from propml.auditing.review import write_review


def test_pictures_are_shown(opened, tmp_path):
    path = write_review(fake_report(30), tmp_path / "pictures.html", images=fake_pictures(30))
    page = opened(url=path.as_uri())
    until(page, "document.querySelector('.entry.current .picture').naturalWidth === 192")
    press(page, ["Enter"])
    until(page, "document.querySelector('#whole-picture').naturalWidth === 192")


@pytest.mark.parametrize("width", [1280, 768, 390, 360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows(opened, hostile_address, address, width, scheme):
    for url in (address, hostile_address):
        page = opened(width, scheme, url)
        if width < 800:
            page.click("#filters > summary")
        page.click("#reliability > summary")
        press(page, "ja")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        outside = page.evaluate(
            """width => [...document.querySelectorAll("body *")].filter(each => {
                 const box = each.getBoundingClientRect();
                 return box.width && (box.right > width + 1 || box.left < -1) && !each.closest(".scroll, dialog");
               }).map(each => each.outerHTML.slice(0, 120))""",
            width,
        )
        assert outside == []
        overlap = page.evaluate(
            """() => [...document.querySelectorAll(".entry")].filter(each => {
                 const low = (part) => each.querySelector(part).getBoundingClientRect();
                 const stacked = low(".choice").left < low(".item").left + 5;
                 const inside = low(".choice").bottom <= each.getBoundingClientRect().bottom;
                 return !inside || (stacked && low(".item").bottom > low(".choice").top);
               }).length"""
        )
        assert overlap == 0


def test_fingers_decide_on_a_phone(opened, tmp_path):
    page = opened(390, touch=True)
    order = entries(page)
    page.locator(".entry .accept").first.tap()
    page.locator(".entry .reject").nth(1).tap()
    page.locator(".entry .reject").nth(1).tap()
    page.locator(".entry .accept").nth(2).tap()
    page.locator("#undo").tap()
    assert without_time(read_decisions(downloaded(page, tmp_path))) == without_time(decided_in(order, "a"))
    sizes = page.eval_on_selector_all(".entry .choice button:not(.plain)", "all => all.map(b => b.offsetHeight)")
    assert min(sizes) >= 40


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(opened, scheme):
    page = opened(scheme=scheme)
    page.click("#all")
    press(page, "arj")

    def luminance(color):
        channels = [int(value) / 255 for value in re.findall(r"\d+", color)[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    paper = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    tint = luminance(page.evaluate("getComputedStyle(document.querySelector('.tiles')).backgroundColor"))
    assert (paper < 0.1) == (scheme == "dark")
    parts = ["body", ".lead", ".quiet", ".chip.keep", ".progress", ".name", ".voters", ".id", ".text", ".number"]
    parts += [".verdict", ".plain", "[aria-pressed=false] small", "summary"]
    parts += [".tile.drop dd", ".tile.doubtful dd", ".tile.missing dd"]
    for part in parts:
        color = luminance(page.eval_on_selector(part, "each => getComputedStyle(each).color"))
        for background in (paper, tint):
            high, low = sorted((color, background), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, part


def test_the_page_can_be_switched_between_light_and_dark(opened):
    page = opened(scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.click(".theme")
    light = page.evaluate(background)
    assert light != dark
    page.reload()
    assert page.evaluate(background) == light
    assert page.inner_text(".theme") == "Dark page"


def test_of_fifty_thousand_rows_only_those_in_sight_are_in_the_page(opened, tmp_path):
    """Whatever is done: a page that holds them all freezes."""
    n = 50_000
    report = fake_report(n)
    page = opened(url=write_review(report, tmp_path / "large.html", texts=fake_texts(n)).as_uri())
    page.wait_for_selector(".entry")
    total = len(report.verdicts().row)
    in_page = "document.querySelectorAll('.entry').length"
    assert page.evaluate(in_page) < 30
    changed = "new Event('change', { bubbles: true })"
    for act in (
        "$('all').click()",
        "Object.assign($('search'), { value: 'tent' }).dispatchEvent(new Event('input'))",
        f"Object.assign($('label'), {{ value: '3' }}).dispatchEvent({changed})",
        f"Object.assign($('sort'), {{ value: 'label' }}).dispatchEvent({changed})",
        "$('all').click()",
    ):
        page.evaluate(f"() => {{ const $ = (id) => document.getElementById(id); {act}; }}")
        assert 0 < page.evaluate(in_page) < 30, act
    assert page.inner_text("#progress").startswith(f"{total:,}".replace(",", "\u202f"))
    for share in (0.25, 0.5, 1):
        page.evaluate(f"scrollTo(0, {share} * document.documentElement.scrollHeight)")
        last = "Number([...document.querySelectorAll('.entry')].at(-1).dataset.position)"
        until(page, f"Math.abs({last} / {total} - {share}) < 0.01")
        assert page.evaluate(in_page) < 30
    assert int(page.locator(".entry").last.get_attribute("aria-posinset")) == total
    press(page, "ja")
    assert page.inner_text("#progress").endswith("1 decided")
    assert page.evaluate(in_page) < 30

"""Facts about the page in a real browser: it opens from disk, sorts, shows figures, fits a phone and a dark room."""

import pytest
from noisy_published import fold_results, noisy_published

from propml.benchmark.reporting import write_report
from propml.benchmark.results import Results

WIDTHS = {"desktop": 1280, "phone": 390, "small phone": 360}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    (file,) = write_report(noisy_published(), folder, formats=["html"])
    return file.as_uri()


@pytest.fixture
def opened(chromium, address):
    """A function that opens the page; whatever it asked for or complained about fails the test."""
    contexts, complaints, requests = [], [], []

    def open_page(width=1280, scheme="light", url=address):
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
    # The page itself, once for each opening, and nothing else; the empty icon is in the page.
    assert [url for url in requests if not url.startswith("data:")] == requests[:1] * len(contexts)


def unfold(page):
    page.evaluate("() => document.querySelectorAll('details').forEach(each => { each.open = true; })")


def column(page, table, number):
    return page.eval_on_selector_all(
        f"{table} tbody tr", "(rows, n) => rows.map(row => row.cells[n].innerText.split('\\n')[0].trim())", number
    )


def first_table(page):
    """The selector of the table of average precision beside the paper."""
    return "#e1-average_precision-paper + .scroll table"


def numbers(texts):
    return [float(text.split()[0]) for text in texts if not text.startswith(("not", "failed"))]


def head_of(page, table, *words):
    """The number of the column with this head, and the head."""
    heads = page.locator(f"{table} thead th")
    number = [text.split() for text in heads.all_inner_texts()].index(" ".join(words).split())
    return number, heads.nth(number)


def test_sorts_on_click(opened):
    page = opened()
    table = first_table(page)
    birds, head = head_of(page, table, "Birds 50 %")
    before = column(page, table, birds)
    assert head.get_attribute("aria-sort") == "none"
    head.locator("button").click()
    found = column(page, table, birds)
    # Higher is better, so the first click puts the highest on top, and what failed at the bottom.
    assert head.get_attribute("aria-sort") == "descending"
    assert numbers(found) == sorted(numbers(before), reverse=True)
    assert numbers(found) != numbers(before)
    assert found[-1].startswith("failed")
    assert sorted(found) == sorted(before)
    head.locator("button").click()
    found = column(page, table, birds)
    assert head.get_attribute("aria-sort") == "ascending"
    assert numbers(found) == sorted(numbers(before))
    assert found[-1].startswith("failed")
    page.locator(f"{table} thead th").nth(0).locator("button").click()
    assert head.get_attribute("aria-sort") == "none"
    names = column(page, table, 0)
    assert names == sorted(names, key=str.lower)


def test_rows_stay_together_when_sorted(opened):
    page = opened()
    table = first_table(page)

    def rows():
        return {
            tuple(text.strip() for text in texts)
            for texts in page.eval_on_selector_all(
                f"{table} tbody tr", "rows => rows.map(row => [...row.cells].map(cell => cell.innerText))"
            )
        }

    before = rows()
    page.locator(f"{table} thead th").nth(4).locator("button").click()
    assert rows() == before


def test_sorts_numbers_as_numbers_and_by_keyboard(opened):
    page = opened()
    unfold(page)
    page.locator("#e1-costs ~ .scroll table").first.evaluate("table => { table.id = 'costs'; }")
    fit, head = head_of(page, "#costs", "Fit")
    head.locator("button").focus()
    assert page.evaluate("document.activeElement.innerText").startswith("Fit")
    page.keyboard.press("Enter")

    def values():
        return [
            float(text)
            for text in page.eval_on_selector_all(
                "#costs tbody tr", "(rows, n) => rows.map(row => row.cells[n].dataset.sort)", fit
            )
        ]

    # As words, "1 min 5 s" would come before "7 s".
    found = values()
    assert any("min" in text for text in column(page, "#costs", fit))
    assert found == sorted(found)
    page.keyboard.press("Space")
    assert values() == found[::-1]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.innerText").startswith("Predict")


def test_every_table_can_be_sorted_by_every_column(opened):
    page = opened()
    unfold(page)
    n_columns = page.evaluate("() => document.querySelectorAll('table thead th').length")
    failed = page.evaluate(
        """() => [...document.querySelectorAll("table thead th")].filter(head => {
             head.querySelector("button").click();
             return !["ascending", "descending"].includes(head.getAttribute("aria-sort"));
           }).length"""
    )
    assert n_columns > 100
    assert failed == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_every_figure_is_seen_and_nothing_overflows(opened, width, scheme):
    page = opened(width, scheme)
    page.eval_on_selector_all(".research", "all => all.forEach(each => { each.open = true; })")
    sizes = page.eval_on_selector_all(
        "figure svg",
        "all => all.map(svg => { const box = svg.getBoundingClientRect(); return [box.left, box.right, box.height]; })",
    )
    # Ranks: the paper's, ours, five metrics; noise: ours, the paper's.
    assert len(sizes) == 9
    assert all(left >= 0 and right <= width and right - left > 200 and height > 60 for left, right, height in sizes)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.body.scrollWidth") <= width
    outside = page.evaluate(
        """width => [...document.querySelectorAll("body *")].filter(each => {
             const box = each.getBoundingClientRect();
             return box.width && box.right > width + 1 && !each.closest(".scroll, nav, svg, details:not([open])");
           }).map(each => each.outerHTML.slice(0, 120))""",
        width,
    )
    assert outside == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_background(opened, scheme):
    page = opened(scheme=scheme)

    def luminance(color):
        channels = [int(value) / 255 for value in color[4:-1].split(",")]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (luminance(background) < 0.1) == (scheme == "dark")
    for selector in ("body", ".lead", ".better", ".worse", "summary", ".std", "figure svg text", "nav a"):
        color = page.eval_on_selector(
            selector, "each => getComputedStyle(each)[each.closest('svg') ? 'fill' : 'color']"
        )
        high, low = sorted((luminance(color), luminance(background)), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= 4.5, (selector, color)


def test_the_page_can_be_switched_between_light_and_dark(opened):
    page = opened(scheme="dark")
    button = page.locator(".theme")

    def background():
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    dark = background()
    assert button.inner_text() == "Light page"
    button.click()
    light = background()
    assert light != dark
    assert button.inner_text() == "Dark page"
    page.emulate_media(color_scheme="light")
    assert background() == light
    button.click()
    assert background() == dark


def test_the_first_column_stays_while_a_wide_table_scrolls(opened):
    page = opened(390)
    page.locator(first_table(page)).first.evaluate("table => { table.id = 'wide'; }")
    box = page.locator("#wide >> xpath=..")

    def lefts():
        cells = page.locator("#wide tbody tr").first.locator("th, td")
        return [cells.nth(number).bounding_box()["x"] for number in range(2)]

    assert box.evaluate("each => each.scrollWidth > each.clientWidth")
    assert box.evaluate("each => each.classList.contains('more')")
    before = lefts()
    box.evaluate("each => { each.scrollLeft = 120; }")
    after = lefts()
    assert after == [before[0], before[1] - 120]
    box.evaluate("each => { each.scrollLeft = each.scrollWidth; }")
    page.wait_for_function("() => !document.querySelector('#wide').parentElement.classList.contains('more')")


def test_links_lead_somewhere_and_commands_are_there(opened):
    page = opened()
    missing = page.evaluate(
        "() => [...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.getAttribute('href').slice(1))"
        ".filter(id => !document.getElementById(id))"
    )
    assert missing == []
    first = page.locator(f"{first_table(page)} tbody tr").first
    assert first.locator("th").inner_text() == "CPLST"
    assert (
        first.locator("td")
        .first.get_attribute("title")
        .startswith("propml benchmark run artificial --datasets bibtex --noise 50 --methods CPLST")
    )


def test_the_page_begins_with_what_to_use_and_folds_away_what_researchers_need(opened):
    page = opened(390)
    box = page.locator(".recommended")
    assert box.inner_text().startswith("Use ProPML: it has the best mean rank")
    assert box.bounding_box()["y"] < 500
    for hidden in ("#e1-ranks", "#e1-lams", "#e1-costs", "#provenance table"):
        assert not page.locator(hidden).is_visible()
    page.locator("nav a", has_text="For researchers").click()
    page.locator("#e1-costs").wait_for(state="visible")
    assert not page.locator("#provenance table").is_visible()


def test_hostile_text_is_shown_and_not_run(opened):
    page = opened()
    assert "<img src=x onerror=alert(1)>" in page.locator("#e1").inner_text()
    assert page.locator("main img").count() == 0


def test_one_number_makes_a_page(opened, tmp_path):
    results = Results(fold_results("toy", "birds", 50, "Ridge", "one_error", [10, 20]))
    (file,) = write_report(results, tmp_path, formats=["html"])
    page = opened(360, url=file.as_uri())
    assert page.locator("figure").count() == 0
    assert page.locator(".recommended").count() == 0
    unfold(page)
    assert "No diagram: Ridge given; it takes two methods to compare" in page.locator("main").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_what_unfolds_stays_inside(opened, width):
    page = opened(width)
    folded = page.evaluate("document.body.scrollHeight")
    unfold(page)
    assert page.evaluate("document.body.scrollHeight") > 1.5 * folded
    assert page.evaluate("document.documentElement.scrollWidth") <= width

"""Files: the right kinds, the same bytes twice, and SVG that shares a page with other SVG."""

import re
from xml.etree import ElementTree

import matplotlib.figure
import pytest

from propml.benchmark.figures.critical_difference import critical_difference
from propml.benchmark.figures.noise_curves import noise_curves
from propml.benchmark.figures.saving import save, svg_text
from propml.benchmark.figures.style import INK
from propml.benchmark.published import load_published
from propml.benchmark.statistics import compare_results


def published_figure():
    return noise_curves((), [row for row in load_published("artificial") if row.dataset == "birds"])[0]


def test_the_ending_says_what_is_written(tmp_path):
    figure = published_figure()
    starts = {"a.png": b"\x89PNG\r\n\x1a\n", "a.pdf": b"%PDF-1.", "a.SVG": b"<?xml"}
    for name, start in starts.items():
        assert save(figure, tmp_path / "new folder" / name).read_bytes().startswith(start)
    assert sorted(path.name for path in (tmp_path / "new folder").iterdir()) == sorted(starts)


def test_an_unknown_ending_is_an_error_that_names_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match=r"figure\.gif .* \.svg, \.png or \.pdf"):
        save(published_figure(), tmp_path / "figure.gif")
    assert not list(tmp_path.iterdir())


def test_a_figure_that_cannot_be_drawn_leaves_the_old_file(tmp_path):
    path = save(published_figure(), tmp_path / "a.svg")
    before = path.read_bytes()
    broken = matplotlib.figure.Figure()
    broken.text(0, 0, r"\frac", parse_math=True).set_text("$\\frac$")
    with pytest.raises(ValueError):
        save(broken, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_the_same_numbers_give_the_same_bytes(tmp_path, kind):
    one, two = (save(published_figure(), tmp_path / f"{i}.{kind}").read_bytes() for i in range(2))
    assert one == two


def test_svg_says_its_letters_and_not_the_day(tmp_path):
    root = ElementTree.parse(save(published_figure(), tmp_path / "a.svg")).getroot()
    texts = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"Birds", "ProPML", "PAR-VLS", "150 %"} <= texts
    assert not [element for element in root.iter() if element.tag.endswith("date")]


def test_pdf_embeds_its_font_as_truetype(tmp_path):
    assert b"/FontFile2" in save(published_figure(), tmp_path / "a.pdf").read_bytes()


def test_two_figures_share_a_page_without_a_clash():
    one, two = svg_text(published_figure(), "one"), svg_text(published_figure(), "two")
    page = ElementTree.fromstring(f"<div>{one}{two}</div>")
    ids = [element.get("id") for element in page.iter() if element.get("id")]
    assert len(ids) == len(set(ids)) > 50
    text = one + two
    wanted = set(re.findall(r"url\(#([^)]+)\)", text)) | set(re.findall(r'href="#([^"]+)"', text))
    assert wanted
    assert wanted <= set(ids)
    for rule in re.findall(r"<style[^>]*>(.*?)</style>", text):
        assert rule.startswith(("#one ", "#two "))


def test_inline_svg_follows_the_page():
    text = svg_text(published_figure(), "a", title="Score & noise")
    root = ElementTree.fromstring(text)
    assert text.startswith("<svg")
    assert root.get("aria-label") == "Score & noise"
    assert "currentColor" in text
    assert INK not in text
    assert "DejaVu" not in text
    assert root.get("height") is None
    assert float(root.get("width")) == pytest.approx(4.8 * 96, abs=1)
    # nothing opaque and white lies behind it
    assert not re.search(r"fill: (#fff|white)", text)


def test_inline_svg_is_the_same_twice():
    comparison = compare_results(load_published("real-world"), "average_precision")
    one, two = (svg_text(critical_difference(comparison)[0], "cd") for _ in range(2))
    assert one == two
    assert ElementTree.fromstring(one).get("aria-hidden") == "true"


@pytest.mark.parametrize("prefix", ["", "1a", "a b", 'a"', "é"])
def test_a_prefix_that_is_no_id_is_an_error(prefix):
    with pytest.raises(ValueError, match="cannot start an id"):
        svg_text(published_figure(), prefix)


def test_names_with_markup_and_dollars_stay_as_they_are():
    rows = [
        row._replace(method={"ProPML": "A & <B> $x$"}.get(row.method, row.method)) for row in load_published("vision")
    ]
    root = ElementTree.fromstring(svg_text(noise_curves((), rows, "mAP")[0], "a"))
    assert "A & <B> $x$" in {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}

"""Facts about the look: seen on light and dark pages and by colour-blind eyes, independent of the user's settings."""

import itertools
import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import matplotlib
import matplotlib.figure
import numpy as np
import pytest

from propml.benchmark.comparison import compare_means
from propml.benchmark.figures import critical_difference, noise_curves, save, svg_text
from propml.benchmark.figures.style import (
    INK,
    KNOWN,
    PALETTE,
    RC,
    add_legend,
    legend_line,
    measuring_renderer,
    method_looks,
    metric_title,
    panels,
)
from propml.paper import load_published

PAGES = ("#ffffff", "#12161d")
# Machado, Oliveira, Fernandes 2009, full severity, on linear RGB.
EYES = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(color):
    channels = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    low, high = sorted(float(linear(color) @ [0.2126, 0.7152, 0.0722]) + 0.05 for color in (one, other))
    return high / low


def lab(rgb):
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    xyz = np.array(to_xyz) @ rgb / [0.95047, 1, 1.08883]
    root = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def test_contrast_is_that_of_wcag():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("page", PAGES)
def test_data_colours_stand_out_on_light_and_dark_pages(page):
    for color in PALETTE:
        assert contrast(color, page) >= 3, color


@pytest.mark.parametrize("eye", EYES)
def test_no_two_colours_look_alike_to_any_eye(eye):
    seen = [lab(np.clip(np.array(EYES[eye]) @ linear(color), 0, 1)) for color in PALETTE]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 10


def test_letters_are_large_enough():
    assert all(size >= 8 for name, size in RC.items() if name.endswith(("size", "fontsize")) and "marker" not in name)


def test_methods_of_the_paper_look_the_same_beside_others_and_no_two_look_the_same():
    alone, beside = method_looks(["ProPML", "CPLST"]), method_looks(["Ridge", "CPLST", "A", "ProPML"])
    assert all(alone[name] == beside[name] for name in alone)
    many = method_looks([*KNOWN, *(f"other {i}" for i in range(20))])
    assert len(set(many.values())) == len(KNOWN) + 20
    assert [name for name, look in many.items() if look.color == PALETTE[0]] == ["ProPML"]


def test_titles():
    assert metric_title("hamming_loss:paper") == "Hamming loss (paper) (%) ↓"
    assert metric_title("my own") == "my own"


def test_the_users_settings_neither_change_a_figure_nor_are_changed():
    def drawn():
        return svg_text(noise_curves(load_published("vision"), "mAP")[0], "a")

    expected = drawn()
    with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 30, "axes.grid": True, "svg.fonttype": "path"}):
        assert drawn() == expected
        assert matplotlib.rcParams["font.size"] == 30
        assert matplotlib.rcParams["svg.fonttype"] == "path"


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("n_entries", [1, 6, 20])
def test_the_legend_lies_inside_the_figure_and_on_no_panel(n, n_entries):
    figure, axes = panels(n, heading="Heading", xlabel="x")
    entries = [legend_line(f"a method with a name {i}", color=INK) for i in range(n_entries)]
    add_legend(figure, entries)
    renderer = measuring_renderer(figure)
    figure.draw(renderer)
    (legend,) = figure.legends
    box = legend.get_window_extent(renderer)
    assert len(legend.get_texts()) == n_entries
    assert figure.bbox.padded(1).containsx(box.x0)
    assert figure.bbox.padded(1).containsx(box.x1)
    assert figure.bbox.padded(1).containsy(box.y0)
    for axis in axes:
        assert not box.overlaps(axis.get_tightbbox(renderer))


def test_no_panels_is_an_error():
    with pytest.raises(ValueError, match="nothing to draw"):
        panels(0)


def test_an_empty_legend_is_none():
    figure, _ = panels(1)
    add_legend(figure, [])
    assert not figure.legends


def test_two_processes_draw_the_same_with_matplotlib_imported_late_and_pyplot_never():
    code = (
        "import sys, propml.benchmark.figures as figures\n"
        "assert 'matplotlib' not in sys.modules\n"
        "from propml.paper import load_published\n"
        "print(figures.svg_text(figures.noise_curves(load_published('vision'), 'mAP')[0], 'a'))\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules\n"
    )
    drawn = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            timeout=120,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert drawn[0] == drawn[1]
    assert drawn[0].startswith(b"<svg")


# -- files: the right kinds, the same bytes twice, and SVG that shares a page with other SVG --------------------------


def published_figure():
    return noise_curves([row for row in load_published("artificial") if row.dataset == "birds"])[0]


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
    comparison = compare_means(load_published("real-world"), "average_precision")
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
    root = ElementTree.fromstring(svg_text(noise_curves(rows, "mAP")[0], "a"))
    assert "A & <B> $x$" in {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}

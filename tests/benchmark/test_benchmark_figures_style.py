"""Facts about the look: seen on light and dark pages and by colour-blind eyes, independent of the user's settings."""

import itertools
import os
import subprocess
import sys

import matplotlib
import numpy as np
import pytest

from propml.benchmark.figures.noise_curves import noise_curves
from propml.benchmark.figures.saving import svg_text
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
    ordered_colors,
    panels,
)
from propml.benchmark.published import load_published

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
    for color in (*PALETTE, *ordered_colors(7)):
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
        return svg_text(noise_curves((), load_published("vision"), "mAP")[0], "a")

    expected = drawn()
    with matplotlib.rc_context({"axes.facecolor": "red", "font.size": 30, "axes.grid": True, "svg.fonttype": "path"}):
        assert drawn() == expected
        assert matplotlib.rcParams["font.size"] == 30
        assert matplotlib.rcParams["svg.fonttype"] == "path"


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("n_entries", [1, 6, 20])
def test_the_legend_lies_inside_the_figure_and_on_no_panel(n, n_entries):
    place = panels(n, heading="Heading", xlabel="x")
    entries = [legend_line(f"a method with a name {i}", color=INK) for i in range(n_entries)]
    add_legend(place, entries)
    renderer = measuring_renderer(place.figure)
    place.figure.draw(renderer)
    owner = place.figure if place.figure.legends else place.spare
    legend = owner.legends[0] if place.figure.legends else owner.get_legend()
    box = legend.get_window_extent(renderer)
    assert len(legend.get_texts()) == n_entries
    assert place.figure.bbox.padded(1).containsx(box.x0)
    assert place.figure.bbox.padded(1).containsx(box.x1)
    assert place.figure.bbox.padded(1).containsy(box.y0)
    for axis in place.axes:
        assert not box.overlaps(axis.get_tightbbox(renderer))


def test_no_panels_is_an_error():
    with pytest.raises(ValueError, match="nothing to draw"):
        panels(0)


def test_an_empty_legend_is_none():
    place = panels(1)
    add_legend(place, [])
    assert not place.figure.legends


def test_two_processes_draw_the_same_with_matplotlib_imported_late_and_pyplot_never():
    code = (
        "import sys, propml.benchmark.figures as figures\n"
        "assert 'matplotlib' not in sys.modules\n"
        "from propml.benchmark.published import load_published\n"
        "print(figures.svg_text(figures.noise_curves((), load_published('vision'), 'mAP')[0], 'a'))\n"
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

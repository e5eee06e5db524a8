"""Noise: fractions in code, what files and titles write, and back again."""

import pytest

from propml.corruption import CORRUPTIONS
from propml.noise import KINDS, Noise, noise_order


def test_every_corruption_has_a_meaning_for_levels():
    assert set(KINDS) == set(CORRUPTIONS)


@pytest.mark.parametrize(
    ("kind", "written", "level", "title"),
    [
        ("svm", 50.0, 0.5, "50 %"),
        ("svm", 100.5, 1.005, "100.5 %"),
        ("svm", 0.5, 0.005, "0.5 %"),
        ("neighbours", 1.0, 0.01, "1 %"),
        ("flips", 0.1, 0.1, "0.1"),
        ("flips", 1.0, 1.0, "1"),
        ("count", 3.0, 3.0, "3"),
        ("annotators", 0.2, 0.2, "0.2"),
    ],
)
def test_what_is_written_comes_back(kind, written, level, title):
    noise = Noise.read(written, kind)
    assert noise.level == pytest.approx(level)
    assert noise.title == title
    assert noise.written == written
    assert Noise.read(noise.written, kind) == noise
    named = noise._replace(named=True)
    assert named.title == named.written == f"{kind} {written:g}"
    assert Noise.read(named.written) == named


@pytest.mark.parametrize(
    ("written", "kind"), [(50.0, "svm"), (1.5, "svm"), (1.0, "flips"), (0.4, "flips"), (0, "flips")]
)
def test_a_number_of_an_unknown_kind_is_percent_where_it_is_no_rate(written, kind):
    assert Noise.read(written).kind == kind


def test_what_has_no_level_is_its_name():
    assert Noise.read("none") == Noise("none", named=True)
    assert Noise("none", named=True).title == "none"
    assert Noise("none").arguments() == {}


def test_order_is_real_then_kinds_then_levels():
    texts = ["flips 0.2", "svm 100", "none", "svm 50"]
    ordered = sorted([*map(Noise.read, texts), None], key=noise_order)
    assert [noise and str(noise) for noise in ordered] == [None, "svm 50", "svm 100", "flips 0.2", "none"]


@pytest.mark.parametrize("text", ["storms 50", "svm much"])
def test_no_kind_and_no_number_are_refused(text):
    with pytest.raises((KeyError, ValueError)):
        Noise.read(text)

"""The picture says of each image what was predicted, what is true and what the candidates are."""

import warnings

import numpy as np
import pytest
from PIL import Image

from propml.vision.predict import RIGHT, WRONG, check_picture, image_grid

NAMES = ("cat", "dog", "person", "a label of $100, $x^ and a very long name indeed")
IMAGES = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
PROBABILITIES = np.array([[0.9, 0.6, 0.1, 0.0], [0.1, 0.2, 0.3, 0.0], [0.0, 0.0, 0.2, 0.8]])
TRUTH = np.array([[1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]])
CANDIDATES = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]])


def told(ax):
    return [(text.get_text().replace("\n", " "), text.get_color()) for text in ax.texts]


def test_right_wrong_and_missed_labels_are_marked():
    _, axes = image_grid(IMAGES, PROBABILITIES, NAMES, candidates=CANDIDATES, truth=TRUTH)
    assert len(axes) == 3
    first = told(axes[0])
    assert first[0] == ("✓ cat 0.90", RIGHT)
    assert first[1] == ("✗ dog 0.60", WRONG)
    assert first[2] == ("missed: person", WRONG)
    assert first[3][0] == "true: cat, person"
    assert first[4][0] == "candidates: cat, dog, person"
    assert [line for line, _ in told(axes[1])] == ["nothing predicted", "true: none", "candidates: cat"]
    np.testing.assert_array_equal(axes[0].images[0].get_array(), IMAGES[0])


def test_without_truth_candidates_judge():
    _, axes = image_grid(IMAGES, PROBABILITIES, NAMES, candidates=CANDIDATES, top=1)
    assert [told(ax)[0][0] for ax in axes[:2]] == ["✓ cat 0.90", "✗ person 0.30"]
    _, axes = image_grid(IMAGES, PROBABILITIES, NAMES, top=2)
    assert [line for line, _ in told(axes[0])] == ["• cat 0.90", "• dog 0.60"]


def test_it_is_written_whatever_the_names(tmp_path):
    image_grid(IMAGES, PROBABILITIES, NAMES, truth=TRUTH, columns=2, path=tmp_path / "grid.png")
    with Image.open(tmp_path / "grid.png") as drawn:
        assert drawn.width > 500
        assert len(drawn.getcolors(maxcolors=10**6)) > 100


def test_letters_that_the_font_lacks_are_drawn_without_a_word(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        image_grid(IMAGES, PROBABILITIES, ("日本", "ไทย", "தமிழ்", "🐈"), truth=TRUTH, path=tmp_path / "grid.png")


def test_the_folder_is_made_and_the_kind_is_checked(tmp_path):
    for name in ("new/grid.PNG", "new/grid.pdf"):
        image_grid(IMAGES, PROBABILITIES, NAMES, path=tmp_path / name)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["grid.PNG", "grid.pdf"]
    for name in ("grid.xyz", "grid"):
        with pytest.raises(ValueError, match=rf"{name} does not end in a kind of picture; choose a name in .png"):
            check_picture(tmp_path / name)
        with pytest.raises(ValueError, match="kind of picture"):
            image_grid(IMAGES, PROBABILITIES, NAMES, path=tmp_path / name)


def test_parts_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"truth have shape \(2, 4\), expected 3 images by 4 label names"):
        image_grid(IMAGES, PROBABILITIES, NAMES, truth=TRUTH[:2])
    with pytest.raises(ValueError, match="no images"):
        image_grid(IMAGES[:0], PROBABILITIES[:0], NAMES)

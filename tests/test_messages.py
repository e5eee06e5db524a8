"""Old names work for one release, and say what to write instead."""

import importlib

import pytest

from propml.messages import renamed_argument


@renamed_argument("show", "verbose")
def fit(X, *, verbose=False):
    """Fit."""
    return X, verbose


def test_an_old_argument_works_and_names_the_new_one():
    with pytest.warns(DeprecationWarning, match=r"show= of fit\(\) is now called verbose=") as seen:
        assert fit(3, show=True) == (3, True)
    assert seen[0].filename == __file__  # the line to change


def test_both_names_at_once_are_refused():
    with pytest.raises(TypeError, match="give verbose alone"):
        fit(3, show=True, verbose=True)


def test_the_new_argument_is_silent(recwarn):
    assert fit(3, verbose=True) == (3, True)
    assert not recwarn.list


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("propml.losses", "BCELoss", "CandidateBCELoss"),
        ("propml.tables", "open_source", "open_table"),
        ("propml.tuning", "Choice", "OneOf"),
        ("propml.tuning", "Number", "Range"),
        ("propml.vision", "Recipe", "VisionRecipe"),
        ("propml.vision.recipe", "Recipe", "VisionRecipe"),
    ],
)
def test_old_names_are_the_new_ones(module, old, new):
    room = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=f"{module}.{old} is now called {new}") as seen:
        assert getattr(room, old) is getattr(room, new)
    assert seen[0].filename == __file__
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        room.nonsense  # noqa: B018

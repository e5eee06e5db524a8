"""Search spaces: what is declared is real, what is wrong is said."""

import numpy as np
import optuna
import pytest

from propml.methods import METHODS, method_class
from propml.targets import Candidates
from propml.tuning.spaces import (
    SPACES,
    VISION,
    OneOf,
    Range,
    When,
    altered,
    parse_dimension,
    restored,
    space_of,
    suggest,
)

KNOWN = ["a", "b", "alpha"]


def drawn(space, n=60, seed=0):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    return [suggest(study.ask(), space) for _ in range(n)]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_space_of_real_arguments_that_it_can_be_made_with(method):
    known = method_class(method)().get_params()
    assert SPACES[method]
    assert altered(space_of(method), {}, list(known), method).keys() <= known.keys()
    for chosen in drawn(space_of(method), 5):
        method_class(method)(**chosen)


def test_numbers_stay_inside_and_logarithmic_ones_spread_over_the_magnitudes():
    values = [each["alpha"] for each in drawn({"alpha": Range(1e-4, 1.0, log=True)}, 400)]
    assert 1e-4 <= min(values) <= max(values) <= 1
    # A quarter of the draws lies in each of the four decades.
    shares = np.histogram(np.log10(values), [-4, -3, -2, -1, 0])[0] / 400
    np.testing.assert_allclose(shares, 0.25, atol=0.08)
    whole = [each["k"] for each in drawn({"k": Range(1, 3, integer=True)})]
    assert set(whole) == {1, 2, 3}
    assert all(isinstance(k, int) for k in whole)


def test_conditional_dimensions_are_there_when_they_make_sense():
    for chosen in drawn(space_of("propml")):
        assert ("dropout" in chosen) == (chosen["hidden"] != ())
        assert "order" in chosen  # the loss is "power"
    fixed = altered(space_of("propml"), {"loss": "propml"}, list(method_class("propml")().get_params()), "propml")
    assert all("order" not in chosen for chosen in drawn(fixed, 10))


def test_a_condition_waits_for_its_dimension_wherever_it_stands():
    space = altered({"b": Range(0, 1, when=When("a", (1,))), "a": OneOf((0, 1))}, {}, KNOWN, "it")
    assert all(("b" in chosen) == (chosen["a"] == 1) for chosen in drawn(space))


def test_configurations_come_back_with_what_is_fixed():
    space = space_of("propml")
    params = {"hidden": "[256, 256]", "lam": 0.1, "order": 0.3, "dropout": 0.5}
    back = restored(params, space)
    assert back["hidden"] == (256, 256)
    assert back["loss"] == "power"
    assert back["forest"] is False
    assert back["order"] == 0.3
    assert "learning_rate" not in back  # its worker died before it was suggested
    assert restored({"a": None}, {"a": OneOf((None, 1))}) == {"a": None}


def test_with_many_labels_lam_reaches_further_down():
    few, many = (space_of("propml", Candidates.from_matrix(np.eye(n, dtype=int)))["lam"].low for n in (6, 201))
    assert few == 0.002
    assert many == pytest.approx(0.1 / 200)


def test_the_paper_s_ranges_for_images():
    assert (VISION["learning_rate"].low, VISION["learning_rate"].high) == (2e-5, 2e-4)
    assert (VISION["weight_decay"].low, VISION["weight_decay"].high) == (1e-7, 5e-4)
    assert (VISION["lam"].low, VISION["lam"].high) == (0.02, 1.0)


def test_changes_keep_the_declared_scale():
    space = {"a": Range(1.0, 10.0, log=True)}
    assert altered(space, {"a": (2, 5)}, KNOWN, "it")["a"] == Range(2, 5, log=True)
    assert altered(space, {"a": 3.0}, KNOWN, "it")["a"] == OneOf((3.0,))
    assert altered(space, {"b": (1, 9)}, KNOWN, "it")["b"] == Range(1, 9, integer=True)
    assert altered(space, {"b": [[1, 2], []]}, KNOWN, "it")["b"] == OneOf(((1, 2), ()))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"alhpa": 1}, "'alhpa' is not an argument of it; did you mean 'alpha'"),
        ({"zzz": 1}, "known are a, b, alpha"),
        ({"a": (2.0, 1.0)}, "a goes from 2.0 to 1.0; give two finite numbers, the smaller first"),
        ({"a": (1.0, 1.0)}, "the smaller first"),
        ({"a": (1.0, float("inf"))}, "two finite numbers"),
        ({"a": Range(0, 1, log=True)}, "a goes from 0 to 1; .* above 0 on a logarithmic scale"),
        ({"a": Range(0.5, 2, integer=True)}, "whole where a is"),
        ({"a": []}, "a is one of .*; give at least one value"),
        ({"a": [1, 1]}, "a is one of .*, and none twice"),
        ({"random_state": 1}, "random_state is given by the search"),
    ],
)
def test_bad_spaces_are_told_in_a_sentence(change, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        altered({}, change, KNOWN, "it")


def test_what_the_command_line_says():
    assert parse_dimension("lam=log:1e-3..1") == ("lam", Range(1e-3, 1, log=True))
    assert parse_dimension("loss = power | bce") == ("loss", ["power", "bce"])
    assert parse_dimension("forest=true") == ("forest", True)
    for wrong in ("lam", "=3", "lam=", "lam=a..b"):
        with pytest.raises(ValueError, match="write NAME="):
            parse_dimension(wrong)
    for wrong in ("hidden=[", "hidden=[8]|[4", 'loss="power'):
        with pytest.raises(ValueError, match=r"(hidden|loss) is '.*'; write a list such as"):
            parse_dimension(wrong)


def test_an_unknown_method_is_told_with_the_nearest_name():
    with pytest.raises(ValueError, match="did you mean 'ridge'"):
        space_of("rigde")

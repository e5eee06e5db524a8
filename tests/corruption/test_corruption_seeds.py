"""What counts as a seed."""

import numpy as np
import pytest

from propml.corruption.inputs import generator, seed_of


def test_a_generator_is_used_as_it_is():
    rng = np.random.default_rng(3)
    assert generator(rng) is rng


def test_equal_seeds_draw_equal_numbers_whatever_their_integer_type():
    assert generator(7).random() == generator(np.int64(7)).random()


def test_data_drawn_with_a_seed_does_not_meet_the_same_numbers_in_its_corruption():
    assert generator(0).random() != np.random.default_rng(0).random()


def test_none_differs_each_time():
    assert generator(None).random() != generator(None).random()


def test_the_seed_of_an_integer_is_itself_and_of_a_generator_is_drawn():
    assert seed_of(5) == 5
    rng = np.random.default_rng(0)
    assert seed_of(rng) != seed_of(rng)


@pytest.mark.parametrize("bad", [-1, "zero", 1.5])
def test_anything_else_is_refused(bad):
    with pytest.raises(ValueError, match="random_state is"):
        generator(bad)

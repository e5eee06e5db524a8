"""Candidates are drawn from a seed."""

from dataclasses import replace

import numpy as np
import pytest
from small_runs import mosaics

from propml.vision.training_data import draw_candidates


def test_noise_flips_what_is_not_true_and_nothing_else():
    source = mosaics(2000)[0]
    drawn = draw_candidates(source, 0.4, seed=3).to_matrix()
    assert (drawn >= source.truth).all()
    assert drawn[source.truth == 0].mean() == pytest.approx(0.4, abs=0.02)


def test_the_same_seed_draws_the_same_candidates():
    source = mosaics(100)[0]
    assert draw_candidates(source, 0.4, seed=3) == draw_candidates(source, 0.4, seed=3)
    assert draw_candidates(source, 0.4, seed=3) != draw_candidates(source, 0.4, seed=4)


def test_without_noise_images_bring_their_own_candidates_or_their_truth():
    source = mosaics(50)[0]
    assert draw_candidates(source, None, seed=0) is source.candidates
    clean = draw_candidates(replace(source, candidates=None), None, seed=0)
    np.testing.assert_array_equal(clean.to_matrix(), source.truth)


def test_what_cannot_be_drawn_is_told():
    source = replace(mosaics(10)[0], truth=None)
    with pytest.raises(ValueError, match="no true labels to learn from or to add noise to"):
        draw_candidates(source, 0.1, seed=0)
    with pytest.raises(ValueError, match="no true labels to learn from"):
        draw_candidates(replace(source, candidates=None), None, seed=0)

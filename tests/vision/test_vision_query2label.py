"""Query2Label: positions, queries and the read-out of each label."""

import math

import pytest
import torch

from propml.vision.query2label import Query2Label, sine_positions


def head(n_labels=5, **options):
    torch.manual_seed(0)
    return Query2Label(8, n_labels, **{"width": 16, "feedforward": 32, **options}).eval()


def test_positions_are_sines_of_row_and_column():
    found = sine_positions(2, 3, 8)
    assert found.shape == (6, 8)
    row, column = 1, 2  # the last place; angles run to 2π at the last row and column
    for axis, (at, length) in enumerate(((row, 2), (column, 3))):
        for pair, frequency in enumerate((1.0, 10_000 ** (-2 / 4))):
            angle = (at + 1) / length * 2 * math.pi * frequency
            expected = torch.tensor([math.sin(angle), math.cos(angle)])
            torch.testing.assert_close(found[5, 4 * axis + 2 * pair :][:2], expected, atol=1e-5, rtol=1e-5)
    assert len({tuple(place.tolist()) for place in found}) == 6


def test_each_label_has_its_own_query_and_read_out():
    network, feature_map = head(), torch.randn(2, 8, 4, 3)
    before = network(feature_map)
    assert before.shape == (2, 5)
    with torch.no_grad():
        network.bias[3] += 1.0
    after = network(feature_map)
    torch.testing.assert_close(after - before, torch.tensor([0, 0, 0, 1.0, 0]).expand(2, -1), atol=1e-5, rtol=0)


def test_labels_are_a_set_their_order_means_nothing():
    network, feature_map = head(), torch.randn(2, 8, 3, 3)
    before, order = network(feature_map), torch.tensor([4, 2, 0, 1, 3])
    with torch.no_grad():
        for part in (network.queries, network.weight, network.bias):
            part.copy_(part[order].clone())
    torch.testing.assert_close(network(feature_map), before[:, order], atol=1e-5, rtol=1e-5)


def test_where_something_is_matters():
    network, feature_map = head(), torch.randn(1, 8, 3, 3)
    assert not torch.allclose(network(feature_map), network(feature_map.flip(3)), atol=1e-4)


def test_published_shape_one_encoder_and_two_decoder_layers_the_first_without_self_attention():
    network = head()
    assert [layer.itself is not None for layer in network.encoder] == [True]
    assert [layer.itself is not None for layer in network.decoder] == [False, True]
    assert all(layer.map is not None for layer in network.decoder)


def test_everything_learns():
    network = head().train()
    network(torch.randn(4, 8, 3, 3)).square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in network.parameters())


def test_a_width_that_cannot_be_shared_out_is_refused():
    with pytest.raises(ValueError, match="width of Query2Label is 18"):
        head(width=18)

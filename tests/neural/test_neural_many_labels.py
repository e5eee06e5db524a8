"""Facts about the network over many labels: what a batch touches gives the same as all labels would."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from propml.losses import bce_loss, propml_loss
from propml.losses.sampled import sampled_bce_loss, sampled_propml_loss
from propml.neural.many_labels import (
    Cells,
    DenseInput,
    LabelSample,
    ManyLabelNetwork,
    RowTable,
    SparseInput,
    batch_logits,
    held_out_ndcg,
    label_log_odds,
    row_of_cells,
)
from propml.neural.training import log_odds

CPU = torch.device("cpu")
RNG = np.random.default_rng(0)
STATES = np.where(RNG.random((9, 12)) < 0.3, 1, np.where(RNG.random((9, 12)) < 0.1, -1, 0)).astype(np.int8)
STATES[4] = 0  # a row without candidates


def cells(matrix, dtype=torch.int8):
    return Cells(sp.csr_array(matrix), CPU, dtype)


@pytest.mark.parametrize("rows", [[0, 1, 2], [8, 4, 4, 0], [4]])
def test_cells_of_rows_are_those_of_the_matrix(rows):
    offsets, columns, values = cells(STATES).of(torch.tensor(rows))
    again = np.zeros((len(rows), 12), dtype=np.int8)
    again[row_of_cells(offsets, len(columns)), columns] = values
    np.testing.assert_array_equal(again, STATES[rows])


@pytest.mark.parametrize(("sampled", "full"), [(sampled_propml_loss, propml_loss), (sampled_bce_loss, bce_loss)])
def test_with_all_labels_in_the_sample_value_and_gradients_are_those_of_the_full_loss(sampled, full):
    generator = torch.Generator().manual_seed(0)
    h = torch.randn(9, 5, generator=generator).requires_grad_()
    table, bias = torch.randn(12, 5, generator=generator), torch.randn(12, 1, generator=generator)
    used = RowTable(table), RowTable(bias)
    values = sampled(**batch_logits(h, cells(STATES).of(torch.arange(9)), torch.randperm(12), *used), lam=0.3)
    whole, level = table.clone().requires_grad_(), bias.clone().requires_grad_()
    expected = full(h @ whole.T + level[:, 0], torch.as_tensor(STATES), lam=0.3)
    torch.testing.assert_close(values, expected)
    found = torch.autograd.grad(values.sum(), [h, used[0].used[0][1], used[1].used[0][1]])
    for own, other in zip(found, torch.autograd.grad(expected.sum(), [h, whole, level]), strict=True):
        torch.testing.assert_close(own, other)


def test_a_row_moves_by_its_summed_mean_squares_and_the_others_stay():
    weight = torch.arange(8.0).view(4, 2)
    table, before, squares = RowTable(weight), weight.clone().numpy(), np.zeros(4)
    for ids, slopes in (([2, 0], [[3.0, 4.0], [0.0, 2.0]]), ([2], [[-1.0, 1.0]])):
        (table.take(torch.tensor(ids)) * torch.tensor(slopes)).sum().backward()
        table.step(0.1)
        for i, slope in zip(ids, np.array(slopes), strict=True):
            squares[i] += (slope**2).mean()
            before[i] -= 0.1 * slope / math.sqrt(squares[i])
    np.testing.assert_allclose(weight, before, rtol=1e-6)


@pytest.mark.parametrize(("size", "frequent"), [(6, 0.5), (5, 0.0), (20, 0.5), (4, 0.9)])
def test_each_label_is_drawn_as_often_as_its_weight_says(size, frequent):
    counts = np.array([0, 9, 1, 7, 3, 0, 2, 5, 1, 4, 0, 6])
    sample = LabelSample(counts, size, frequent, CPU, seed=0)
    times = np.zeros(12)
    for _ in range(3000):
        drawn = sample.draw().numpy()
        assert len(set(drawn)) == len(drawn) == len(sample.weight)
        times[drawn] += sample.weight.numpy()
    np.testing.assert_allclose(times / 3000, 1, atol=0.15)  # every label stands for itself, on average
    always = round(min(size, 12) * frequent)
    assert set(np.argsort(-counts, kind="stable")[:always]) <= set(sample.draw().tolist())


def test_sparse_and_dense_features_give_the_same_product():
    X = np.where(RNG.random((6, 7)) < 0.4, RNG.normal(size=(6, 7)), 0).astype(np.float32)
    rows, first = torch.tensor([5, 0, 3]), torch.randn(7, 4, generator=torch.Generator().manual_seed(0))
    expected = torch.as_tensor(X[[5, 0, 3]]) @ first
    for found in (
        DenseInput(X, CPU).product(rows, first),
        SparseInput(sp.csr_array(X), CPU).product(rows, first),
        SparseInput(sp.csr_array(X), CPU).product(rows, RowTable(first)),
    ):
        torch.testing.assert_close(found, expected)


def test_held_out_ndcg_is_that_of_plain_loops(monkeypatch):
    monkeypatch.setattr("propml.neural.many_labels.BLOCK_LOGITS", 30)  # two rows at once
    X = RNG.normal(size=(9, 4)).astype(np.float32)
    network = ManyLabelNetwork(4, 12, (6,), torch.Generator().manual_seed(1))
    network.table.data.normal_(generator=torch.Generator().manual_seed(2))
    features = DenseInput(X, CPU)
    rows, values = [7, 4, 1, 2, 8], []
    logits = np.concatenate([part.numpy() for _, part in network.logit_blocks(features, torch.tensor(rows))])
    for row, scores in zip(STATES[rows], logits, strict=True):
        order = [j for j in np.argsort(-scores) if row[j] >= 0][:3]
        ideal = sum(1 / math.log2(r + 2) for r in range(min(3, (row > 0).sum())))
        if ideal:
            values.append(sum(1 / math.log2(r + 2) for r, j in enumerate(order) if row[j] > 0) / ideal)
    found = held_out_ndcg(network, features, cells(STATES), torch.tensor(rows), 3)
    assert found == pytest.approx(np.mean(values), abs=1e-6)
    assert len(values) == 4


def test_log_odds_are_those_of_the_dense_matrix():
    np.testing.assert_allclose(label_log_odds(sp.csr_array(STATES)), log_odds(torch.as_tensor(STATES)), rtol=1e-5)


def test_a_network_is_built_again_from_its_arrays_and_arrays_that_do_not_fit_are_refused():
    network = ManyLabelNetwork(3, 5, (4, 2), torch.Generator().manual_seed(0))
    state = {
        "weights": [w.detach().numpy() for w in network.weights],
        "biases": [b.detach().numpy() for b in network.biases],
        "table": network.table.detach().numpy(),
        "bias": network.bias.detach().numpy(),
    }
    again = ManyLabelNetwork.of(state)
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), network.parameters(), strict=True))
    with pytest.raises(RuntimeError, match="size mismatch"):
        ManyLabelNetwork.of(state | {"table": state["table"][:, :1]})

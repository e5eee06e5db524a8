"""Facts about packed candidates: NumPy's own packing, round trips, and the same losses as unpacked."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from propml.losses import (
    CandidateBits,
    ProPaLLLoss,
    ProPMLLoss,
    asl_loss,
    bce_loss,
    power_loss,
    propall_loss,
    propml_loss,
    unbiased_loss,
)
from propml.losses import candidates as candidate_types
from propml.targets import Candidates


def random_marks(shape=(7, 21), lowest=0):
    return torch.randint(lowest, 2, shape, generator=torch.Generator().manual_seed(3)).to(torch.int8)


@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=3, max_side=20), elements=st.integers(0, 1)))
@settings(max_examples=60, deadline=None)
def test_the_bytes_are_those_of_numpy(matrix):
    bits = CandidateBits.from_matrix(matrix)
    np.testing.assert_array_equal(bits.bits.numpy(), np.packbits(matrix, axis=-1, bitorder="little"))
    np.testing.assert_array_equal(bits.to_matrix().numpy(), matrix)
    assert bits.shape == matrix.shape


def test_unknown_entries_survive():
    marks = random_marks(lowest=-1)
    bits = CandidateBits.from_matrix(marks)
    assert bits.known is not None
    assert torch.equal(bits.to_matrix(), marks)
    assert torch.equal(CandidateBits.from_matrix(torch.where(marks < 0, torch.nan, marks.float())).to_matrix(), marks)
    assert CandidateBits.from_matrix(marks.clamp(min=0)).known is None


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
def test_any_type_of_matrix(dtype):
    marks = random_marks()
    assert torch.equal(CandidateBits.from_matrix(marks.to(dtype)).to_matrix(), marks.to(torch.uint8))


@pytest.mark.parametrize("lowest", [0, -1])
def test_sparse_matrices_and_candidates_are_packed_in_blocks(lowest, monkeypatch):
    marks = random_marks((11, 13), lowest)
    marks[0] = marks[0].clamp(min=0)  # a block without unknown entries before blocks with some
    marks[:, 0] = 1
    monkeypatch.setattr(candidate_types, "BLOCK_ENTRIES", 13)
    for matrix in (sp.csr_array(marks.numpy()), sp.coo_matrix(marks.numpy()), Candidates.from_matrix(marks.numpy())):
        assert torch.equal(CandidateBits.from_matrix(matrix).to_matrix().to(torch.int8), marks)


def test_rows_are_taken_like_those_of_a_tensor():
    marks = random_marks(lowest=-1)
    bits = CandidateBits.from_matrix(marks)
    for rows in (3, slice(2, 5), torch.tensor([4, 1, 1]), np.array([0, 6]), [5, 2], torch.arange(7) % 2 == 0):
        assert torch.equal(bits[rows].to_matrix().to(torch.int8), marks[rows])
    assert len(bits) == 7
    assert len(list(torch.utils.data.DataLoader(range(len(bits)), batch_size=3, collate_fn=lambda i: bits[i]))) == 3


def test_moving_and_pinning_keep_the_bits():
    bits = CandidateBits.from_matrix(random_marks(lowest=-1))
    moved = bits.to("cpu", non_blocking=True)
    assert torch.equal(moved.to_matrix(), bits.to_matrix())
    assert moved.device.type == "cpu"
    assert bits.to("meta").known.device.type == "meta"
    if torch.cuda.is_available():
        assert bits.pin_memory().bits.is_pinned()


def test_pinning_pins_both_planes(monkeypatch):
    # Page-locked memory needs a GPU; that both planes are asked for can be seen without one.
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor + 0)
    bits = CandidateBits.from_matrix(random_marks(lowest=-1))
    pinned = bits.pin_memory()
    assert pinned.bits is not bits.bits
    assert torch.equal(pinned.to_matrix(), bits.to_matrix())
    assert CandidateBits.from_matrix(random_marks()).pin_memory().known is None


def test_repr_tells_the_size():
    assert repr(CandidateBits.from_matrix(random_marks())) == "CandidateBits(7 × 21 labels, 21 bytes)"
    unknown = CandidateBits.from_matrix(random_marks(lowest=-1))
    assert repr(unknown) == "CandidateBits(7 × 21 labels, 42 bytes, some unknown)"


@pytest.mark.parametrize("lowest", [0, -1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_loss_is_the_same_on_bits(lowest, dtype):
    marks = random_marks(lowest=lowest)
    bits, logits = CandidateBits.from_matrix(marks), torch.randn(7, 21, dtype=dtype)
    for loss in (propml_loss, bce_loss, asl_loss, propall_loss, power_loss):
        torch.testing.assert_close(loss(logits, bits), loss(logits, marks))
    torch.testing.assert_close(unbiased_loss(logits, bits, flip_rate=0.2), unbiased_loss(logits, marks, flip_rate=0.2))
    for module in (ProPMLLoss(0.2), ProPaLLLoss()):
        torch.testing.assert_close(module(logits, bits), module(logits, marks))


def test_bits_have_their_labels_last_whatever_the_axis_of_the_logits():
    maps, marks = torch.randn(2, 5, 4, 3), random_marks((2, 5, 4, 3), -1)
    bits = CandidateBits.from_matrix(marks.movedim(1, -1))
    for dtype in (torch.float32, torch.float64):
        values = propml_loss(maps.to(dtype), bits, lam=0.3, label_dim=1)
        torch.testing.assert_close(values, propml_loss(maps.to(dtype), marks, lam=0.3, label_dim=1))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: CandidateBits(torch.zeros(2, 3, dtype=torch.uint8), 30), "30 labels need uint8 with 4 bytes"),
        (lambda: CandidateBits(torch.zeros(2, 3), 20), r"bits are torch.float32 of shape \(2, 3\)"),
        (lambda: CandidateBits(*(torch.zeros(2, 3, dtype=torch.uint8), 20, torch.zeros(2, 3))), "known is torch.float"),
        (lambda: CandidateBits.from_matrix(np.array([[1, 0.7]])), "candidates hold 0.7; give 1 for a candidate"),
        (lambda: CandidateBits.from_matrix(sp.csr_array([[1, 2]])), "candidates hold 2; give 1 for a candidate"),
        (lambda: CandidateBits.from_matrix(torch.zeros(3, 0)), r"shape \(3, 0\) has no labels"),
        (lambda: CandidateBits.from_matrix(torch.zeros(2, 9))[0, 1], "cannot be indexed"),
        (lambda: CandidateBits.from_matrix(torch.zeros(9))[0], "a single row"),
        (
            lambda: propml_loss(torch.zeros(2, 9), CandidateBits.from_matrix(torch.zeros(2, 8))),
            r"candidates have shape \(2, 8\), logits \(2, 9\)",
        ),
    ],
)
def test_bad_input_is_told(make, told):
    with pytest.raises(ValueError, match=told):
        make()

"""Rows on a CPU without a compiler: value and gradient in place, a block of rows at a time that stays in the cache.

Beside the gradient no more memory is used than a few blocks. With t = exp(z) and r = 1 / (1 + t), all that is needed is
products: p = t r, 1 - p = r, and Σ -log(1 - p) = log Π (1 + t), so that one logarithm serves several labels.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from propml.losses import plain
from propml.losses.candidate_bits import CandidateBits
from propml.losses.marks import check_marks
from propml.losses.rows import KINDS, Rows

LOSSES = (plain.propml, plain.bce)
BLOCK_ENTRIES = 1 << 19  # per thread; smaller blocks fit a nearer cache, but calls then cost more than work
FOLDED_ENTRIES = 1 << 16  # in smaller blocks the products cost more calls than they save logarithms
LOG2_E = torch.tensor(1 / math.log(2))  # a power of 2 is the cheapest exponential there is
ONE = torch.tensor(1.0)
CEILING = 20.0  # above it log(1 + exp(z)) is z to the last digit of float32, and four factors exp(20) do not overflow
# Below this a set's sum of probabilities is taken relative to its largest one: float32 ends at 1e-38.
TINY = 1e-20


class Block(NamedTuple):
    """Some rows: logits in float32, 0/1 marks of candidates and known entries, and what rows count, as columns."""

    z: Tensor
    positive: Tensor
    told: Tensor | None
    excluded_factor: Tensor
    factor: Tensor


def compute(rows: Rows, scale: float, incoming: Tensor | None, gradient: Tensor | None) -> Tensor:
    """One value per row, block after block; the gradient is written where there is a place for it."""
    n_rows, n_labels = rows.logits.shape
    step = min(n_rows, max(1, BLOCK_ENTRIES * torch.get_num_threads() // n_labels))
    exact = gradient is None or gradient.dtype == torch.float32
    buffers = torch.empty((3 if exact else 4, step, n_labels))
    block_values = _propml_block if rows.kind == KINDS[plain.propml] else _bce_block
    values = torch.empty((n_rows, 1))
    factor = torch.tensor(scale) if incoming is None else scale * incoming.unsqueeze(1)
    for start in range(0, n_rows, step):
        here = slice(start, min(n_rows, start + step))
        space = list(buffers[:, : here.stop - start])
        block = _read(rows, here, factor)
        if gradient is None or exact:
            values[here] = block_values(block, None if gradient is None else gradient[here], *space)
        else:
            values[here] = block_values(block, space[3], *space[:3])
            gradient[here] = space[3]
    return values.squeeze(1)


def _read(rows: Rows, here: slice, scale: Tensor) -> Block:
    """The rows of one block, in the types that the arithmetic wants."""
    told = None
    if rows.packed:
        known = None if rows.known is None else rows.known[here]
        marks = CandidateBits(rows.marks[here], rows.logits.shape[1], known).to_matrix()
    else:
        marks = rows.marks[here]
        check_marks(marks, None if rows.mask is None else rows.mask[here])
    if marks.dtype == torch.uint8:
        positive = marks if marks.max().item() <= 1 else (marks > 0).view(torch.uint8)
    else:
        positive, told = (marks > 0.5).view(torch.uint8), (marks > -0.5).view(torch.uint8)  # NaN is neither
        told = None if told.min().item() == 1 else told
    if rows.mask is not None:
        mask = rows.mask[here]
        told = mask if told is None else told * mask
        positive = positive * mask
    factor = scale if scale.ndim == 0 else scale[here]
    if rows.example_weight is not None:
        factor = factor * rows.example_weight[here].unsqueeze(1)
    lam = rows.lam if rows.lam_rows is None else rows.lam_rows[here].unsqueeze(1)
    z = rows.logits[here].float()
    if told is not None:  # 0 times it would be NaN where a logit that does not count is not finite
        z = torch.where(told.view(torch.bool), z, 0.0)
    return Block(z, positive, told, lam * factor, factor)


def _propml_block(block: Block, slopes: Tensor | None, t: Tensor, r: Tensor, share: Tensor) -> Tensor:
    """The values of the block, as a column; ``t``, ``r`` and ``share`` are overwritten."""
    z, positive, told, excluded_factor, factor = block
    high = _exp(z, t)
    torch.add(t, ONE, out=r).reciprocal_()
    torch.mul(t, positive, out=share)
    if told is not None:
        t.mul_(told)
    t.sub_(share)  # what is left are the excluded labels
    share.mul_(r)
    found = share.sum(dim=1, keepdim=True)
    tiny = found.min().item() < TINY  # a set is empty, or all of its probabilities are tiny
    if tiny:
        log_found = _take_tiny_sets_relative(z, positive, found, share)
    if slopes is not None:
        torch.mul(t, excluded_factor, out=slopes).addcmul_(share, factor / found, value=-1).mul_(r)
    if not tiny:
        log_found = found.log_()
    excluded = _sum_log1p(t, share)
    if high:
        excluded += _beyond_ceiling(z, told, r).mul_(ONE - positive).sum(dim=1, keepdim=True)
    return excluded.mul_(excluded_factor).sub_(log_found.mul_(factor))


def _bce_block(block: Block, slopes: Tensor | None, t: Tensor, r: Tensor, sign: Tensor) -> Tensor:
    """The same for binary cross entropy: with the logits of candidates turned around, all labels are excluded ones."""
    z, positive, told, excluded_factor, factor = block
    torch.add(ONE, positive, alpha=-2, out=sign)
    z = z * sign
    high = _exp(z, t)
    if slopes is not None:
        torch.add(t, ONE, out=r).reciprocal_().mul_(t)
        if told is not None:
            r.mul_(told)
        # The factor is that of an excluded label, or minus that of a candidate.
        torch.mul(positive, -(excluded_factor + factor), out=slopes).add_(excluded_factor).mul_(r)
    if told is not None:
        t.mul_(told)
    torch.mul(t, positive, out=sign)
    t.sub_(sign)
    found, excluded = _sum_log1p(sign, r), _sum_log1p(t, r)
    if high:
        beyond = _beyond_ceiling(z, told, r)
        found += (beyond * positive).sum(dim=1, keepdim=True)
        excluded += (beyond * (ONE - positive)).sum(dim=1, keepdim=True)
    return excluded.mul_(excluded_factor).add_(found.mul_(factor))


def _exp(z: Tensor, out: Tensor) -> bool:
    """exp(z), cut off at the ceiling; whether anything was."""
    torch.mul(z, LOG2_E, out=out)
    high = z.max().item() > CEILING
    if high:
        out.clamp_(max=CEILING * LOG2_E.item())
    out.exp2_()
    return high


def _beyond_ceiling(z: Tensor, told: Tensor | None, out: Tensor) -> Tensor:
    """How far logits lie above the ceiling."""
    torch.sub(z, CEILING, out=out).clamp_(min=0)
    return out if told is None else out.mul_(told)


def _sum_log1p(terms: Tensor, space: Tensor) -> Tensor:
    """Σ log(1 + terms) of each row, as a column; in large blocks of four terms at once, by their product.

    (1 + a)(1 + b) - 1 = a + b + ab: kept without the 1, a small term is not rounded away.
    """
    width = terms.shape[1]
    for _ in range(2 if terms.numel() >= FOLDED_ENTRIES and width >= 4 else 0):
        half = (width + 1) // 2
        first, second, both = terms[:, : width - half], terms[:, half:width], space[:, : width - half]
        torch.add(first, second, out=both)
        torch.addcmul(both, first, second, out=first)
        width = half
    return terms[:, :width].log1p_().sum(dim=1, keepdim=True)


def _take_tiny_sets_relative(z: Tensor, positive: Tensor, found: Tensor, share: Tensor) -> Tensor:
    """log Σ of each set; tiny ones get their shares from a softmax instead, and their sum becomes 1."""
    rows = (found < TINY).squeeze(1)
    chosen = z[rows].masked_fill_(positive[rows] == 0, -torch.inf)
    log_found = found.log()
    log_found[rows] = chosen.logsumexp(dim=1, keepdim=True).nan_to_num_(neginf=0.0)  # an empty set has no value
    share[rows] = chosen.softmax(dim=1).nan_to_num_()
    found[rows] = 1.0
    return log_found

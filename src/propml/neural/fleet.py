"""The fleet: folds × seeds × settings (λ, order) networks trained as one stacked model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from propml.losses import bce_loss, power_loss
from propml.neural.network import StackedMLP, StackShape
from propml.neural.recipe import Recipe
from propml.neural.rows import Rows, keep_mask
from propml.progress import progress_bar

# (logits (K, B, C), candidates (K, B, C), *, lam (K, 1), …) -> (K, B)
Loss = Callable[..., Tensor]


@dataclass(frozen=True)
class Fold:
    """Which rows a member is trained on, and which it never sees; ``name`` keys its random numbers."""

    train: np.ndarray
    held: np.ndarray
    name: int = 0


@dataclass
class Trained:
    """What a fleet leaves behind.

    Attributes
    ----------
    stack : StackedMLP
        The members at their best epoch (the last one where nothing was held out).
    best_epoch : ndarray of int, shape (members,)
    criterion : ndarray, shape (epochs, members)
        The criterion on held-out candidates after every epoch; NaN where nothing was held out.
    loss : ndarray, shape (epochs, members)
        Mean training loss of every epoch.
    """

    stack: StackedMLP
    best_epoch: np.ndarray
    criterion: np.ndarray
    loss: np.ndarray
    settings: list[dict[str, float]] = field(default_factory=list)

    def logits(self, rows: Rows, index: np.ndarray, *, batch: int = 1024) -> Tensor:
        """``(members, len(index), C)`` on the CPU, for any rows of any features."""
        device = self.stack.first.device
        at = torch.as_tensor(index, device=device)
        parts = [_evaluate(self.stack, rows, part.expand(self.stack.shape.folds, -1)).cpu() for part in at.split(batch)]
        return torch.cat(parts, dim=1)

    def held_logits(self, rows: Rows, folds: Sequence[Fold], *, batch: int = 1024) -> list[Tensor]:
        """For each fold, ``(seeds · settings, n_held, C)``: its members on the rows they never saw."""
        device, per_fold = self.stack.first.device, self.stack.shape.per_fold
        longest = max(len(fold.held) for fold in folds)
        index = torch.as_tensor(_padded([fold.held for fold in folds], longest), device=device)
        values = torch.cat([_evaluate(self.stack, rows, part).cpu() for part in index.split(batch, dim=1)], dim=1)
        return [values[f * per_fold : (f + 1) * per_fold, : len(fold.held)] for f, fold in enumerate(folds)]


def train_fleet(
    rows: Rows,
    candidates: Tensor,
    folds: Sequence[Fold],
    recipe: Recipe,
    settings: Sequence[dict[str, float]],
    *,
    seeds: Sequence[int] = (0,),
    loss: Loss = power_loss,
    criterion: Loss = bce_loss,
    example_weight: Tensor | None = None,
    patience: int | None = None,
    min_epochs: int = 1,
    graphs: bool = True,
    bfloat16: bool = False,
    show: bool = False,
) -> Trained:
    """Train one network per (fold, seed, setting), all at once.

    Parameters
    ----------
    rows : Rows
        The features, see :func:`propml.neural.rows.make_rows`.
    candidates : Tensor of int8, shape (n, C), on the device that is to be used
    folds : sequence of Fold
    settings : sequence of dict
        Arguments of the loss that differ between members, such as ``{"lam": 0.1, "order": 0.5}``; same keys in each.
    criterion : callable
        Judges held-out candidates after every epoch (smaller is better); a member keeps its best epoch.
    patience : int, optional
        Stop when no member has improved for so many epochs.
    graphs : bool
        On a GPU, capture the training step in a CUDA graph.
    """
    trainer = _Trainer(rows, candidates, folds, recipe, settings, seeds, loss, example_weight, bfloat16)
    device = candidates.device
    held = _padded([fold.held for fold in folds], max(len(fold.held) for fold in folds))
    counted = torch.as_tensor(np.arange(held.shape[1]) < np.array([[len(f.held)] for f in folds]), device=device)
    index = torch.as_tensor(held, device=device)
    members = trainer.stack.shape.members
    best = torch.full((members,), torch.inf, device=device)
    best_epoch = torch.zeros(members, dtype=torch.long, device=device)
    kept = [parameter.detach().clone() for parameter in trainer.stack.parameters()]
    told, losses = [], []
    if graphs and device.type == "cuda":
        trainer.capture()
    with progress_bar(f"training {members} networks", recipe.epochs, show=show) as bar:
        for epoch in range(1, recipe.epochs + 1):
            losses.append(trainer.epoch())
            if index.shape[1] == 0:
                told.append(torch.full((members,), torch.nan, device=device))
                bar.advance()
                continue
            trainer.show_averaged()
            value = _criterion(trainer.averaged, rows, candidates, index, counted, criterion)
            told.append(value)
            better = (value < best) & (epoch >= min_epochs)
            best, best_epoch = torch.where(better, value, best), torch.where(better, epoch, best_epoch)
            _keep_better(kept, trainer.averaged, better)
            bar.advance(note=f"held-out {value.min().item():.4f}" if show else "")
            if patience is not None and epoch - int(best_epoch.max()) >= patience:
                break
    trainer.show_averaged()
    if index.shape[1]:
        with torch.no_grad():
            for parameter, value in zip(trainer.averaged.parameters(), kept, strict=True):
                parameter.copy_(value)
    else:
        best_epoch += recipe.epochs
    return Trained(
        trainer.averaged,
        best_epoch.cpu().numpy(),
        torch.stack(told).cpu().numpy(),
        torch.stack(losses).cpu().numpy(),
        [dict(setting) for setting in settings],
    )


class _Trainer:
    """The state of a stack in training: parameters, optimiser, running mean, and the buffers that one step reads."""

    def __init__(
        self,
        rows: Rows,
        candidates: Tensor,
        folds: Sequence[Fold],
        recipe: Recipe,
        settings: Sequence[dict[str, float]],
        seeds: Sequence[int],
        loss: Loss,
        example_weight: Tensor | None,
        bfloat16: bool,
    ) -> None:
        device = candidates.device
        self.rows, self.candidates, self.folds, self.recipe, self.loss = rows, candidates, folds, recipe, loss
        self.bfloat16 = bfloat16
        shape = StackShape(len(folds), len(seeds), len(settings), rows.n_features, candidates.shape[1])
        streams = [(fold.name, seed) for fold in folds for seed in seeds]
        starts = [torch.Generator().manual_seed(_mixed(1, *stream)) for stream in streams]
        self.stack = StackedMLP(shape, recipe, starts).to(device)
        self.averaged = StackedMLP(shape, recipe, starts).to(device) if recipe.ema else self.stack
        self.mean = [torch.zeros_like(p) for p in self.stack.parameters()] if recipe.ema else []
        self.steps_done = 0
        self.order_generators = [torch.Generator().manual_seed(_mixed(2, fold.name)) for fold in folds]
        self.input_generators = [torch.Generator(device).manual_seed(_mixed(3, fold.name)) for fold in folds]
        self.mask_generators = [torch.Generator(device).manual_seed(_mixed(4, *stream)) for stream in streams]
        per_fold = {key: torch.tensor([s[key] for s in settings], device=device) for key in settings[0]}
        members = len(streams)
        self.options = {key: value.repeat(members).unsqueeze(1) for key, value in per_fold.items()}
        self.weight = (
            torch.ones(len(candidates), device=device) if example_weight is None else example_weight.to(device)
        )
        longest = max(len(fold.train) for fold in folds)
        self.steps = max(1, round(longest / recipe.batch_size))
        self.per_step = -(-longest // self.steps)
        room = (len(folds), self.steps, self.per_step)
        self.order = torch.zeros(room, dtype=torch.long, device=device)
        self.share = torch.zeros(room, device=device)
        self.at = torch.zeros(1, dtype=torch.long, device=device)
        self.masks: list[Tensor] = []
        self.input_mask: Tensor | None = None
        self.total = torch.zeros(shape.members, device=device)
        decayed = [p for p in self.stack.parameters() if p is self.stack.first or p.shape[1] > 1]
        spared = [p for p in self.stack.parameters() if not (p is self.stack.first or p.shape[1] > 1)]
        self.optimiser = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": spared, "weight_decay": 0.0}],
            lr=recipe.learning_rate,
            fused=True,
            capturable=device.type == "cuda",
        )
        self.graph: torch.cuda.CUDAGraph | None = None

    def epoch(self) -> Tensor:
        """Train every member on all of its rows once; returns their mean losses, ``(members,)``."""
        self._shuffle()
        self.total.zero_()
        self.at.zero_()
        for step in range(self.steps):
            if self.graph is None:
                self.at.fill_(step)
                self._step()
            else:
                self.graph.replay()
        self.steps_done += self.steps
        return self.total / self.steps

    def capture(self) -> None:
        """Record one step as a CUDA graph; parameters and optimiser are put back as they were."""
        self._shuffle(draw=False)
        before = [p.detach().clone() for p in self.stack.parameters()]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        self.optimiser.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self._step()
            self.at += 1
        with torch.no_grad():
            for parameter, value in zip(self.stack.parameters(), before, strict=True):
                parameter.copy_(value)
            for state in self.optimiser.state.values():
                for value in state.values():
                    value.zero_()
            for value in self.mean:
                value.zero_()

    def _shuffle(self, draw: bool = True) -> None:
        """A new order of rows, and new dropout masks, for one epoch; each from its own stream of random numbers."""
        for f, fold in enumerate(self.folds):
            order = (
                torch.randperm(len(fold.train), generator=self.order_generators[f])
                if draw
                else torch.arange(len(fold.train))
            )
            parts = np.array_split(fold.train[order.numpy()], self.steps)
            self.order[f] = torch.as_tensor(_padded(parts, self.per_step))
            counts = torch.tensor([[len(part)] for part in parts])
            self.share[f] = (torch.arange(self.per_step) < counts) / counts.clamp(min=1)
        self.share.mul_(self.weight[self.order])
        n = len(self.candidates)
        rate = self.recipe.dropout
        fresh = (
            [
                torch.stack([keep_mask((n, width), rate, g) for g in self.mask_generators])
                for width in self.recipe.hidden
            ]
            if rate > 0
            else []
        )
        inputs = self.recipe.input_dropout
        drawn = self.rows.drawn_mask(inputs, self.input_generators) if inputs > 0 else None
        if not self.masks and self.input_mask is None:
            self.masks, self.input_mask = fresh, drawn
            return
        for old, new in zip(self.masks, fresh, strict=True):  # in place: the graph reads these very buffers
            old.copy_(new)
        if drawn is not None and self.input_mask is not None:
            self.input_mask.copy_(drawn)

    def _step(self) -> None:
        index = self.order.index_select(1, self.at).squeeze(1)
        share = self.share.index_select(1, self.at).squeeze(1)
        per_fold, seeds = self.stack.shape.per_fold, self.stack.shape.seeds
        stream_rows = index.repeat_interleave(seeds, dim=0)
        masks = [torch.stack([m[r] for m, r in zip(mask, stream_rows, strict=True)]) for mask in self.masks]
        with torch.autocast(index.device.type, torch.bfloat16, enabled=self.bfloat16):
            wide = self.rows.product(index, self.stack.first, self.input_mask)
            logits = self.stack(wide, masks)
        targets = self.candidates[index].repeat_interleave(per_fold, dim=0)
        values = self.loss(logits.float(), targets, **self.options)
        loss = (values * share.repeat_interleave(per_fold, dim=0)).sum(dim=1)
        loss.sum().backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.total += loss.detach()
        if self.mean:
            torch._foreach_lerp_(self.mean, [p.detach() for p in self.stack.parameters()], 1 - self.recipe.ema)

    @torch.no_grad()
    def show_averaged(self) -> None:
        """Write the running mean of the weights, corrected for its start at zero, where it can be evaluated."""
        scale = 1 - self.recipe.ema**self.steps_done
        for parameter, mean in zip(self.averaged.parameters(), self.mean, strict=False):
            parameter.copy_(mean / scale)


@torch.no_grad()
def _evaluate(stack: StackedMLP, rows: Rows, index: Tensor) -> Tensor:
    return stack(rows.product(index, stack.first))


@torch.no_grad()
def _criterion(
    stack: StackedMLP, rows: Rows, candidates: Tensor, index: Tensor, counted: Tensor, judge: Loss, batch: int = 1024
) -> Tensor:
    """The mean of ``judge`` over the held-out rows of each member, ``(members,)``."""
    per_fold = stack.shape.per_fold
    total = torch.zeros(stack.shape.members, device=index.device)
    for part, real in zip(index.split(batch, dim=1), counted.split(batch, dim=1), strict=True):
        targets = candidates[part].repeat_interleave(per_fold, dim=0)
        values = judge(_evaluate(stack, rows, part), targets)
        total += (values * real.repeat_interleave(per_fold, dim=0)).sum(dim=1)
    return total / counted.sum(dim=1).repeat_interleave(per_fold)


@torch.no_grad()
def _keep_better(kept: list[Tensor], stack: StackedMLP, better: Tensor) -> None:
    """Copy the parameters of the members that improved."""
    shape = stack.shape
    for old, parameter in zip(kept, stack.parameters(), strict=True):
        if parameter is stack.first:
            by_fold = better.view(shape.folds, shape.per_fold)
            columns = [by_fold.repeat_interleave(stack.first_width, dim=1)]
            if stack.skip_width:
                columns.append(by_fold.repeat_interleave(stack.skip_width, dim=1))
            chosen = torch.cat(columns, dim=1).unsqueeze(1)
        else:
            chosen = better.view(-1, 1, 1)
        old.copy_(torch.where(chosen, parameter, old))


def _padded(parts: Sequence[np.ndarray], length: int) -> np.ndarray:
    """Index arrays as one matrix, filled up with row 0 (whose weight is zero there)."""
    matrix = np.zeros((len(parts), length), dtype=np.int64)
    for row, part in zip(matrix, parts, strict=True):
        row[: len(part)] = part
    return matrix


def _mixed(*numbers: int) -> int:
    """One seed from several numbers, far apart for neighbours."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)

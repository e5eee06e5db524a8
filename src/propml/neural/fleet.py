"""The fleet: folds × seeds × settings (λ, order) networks trained as one stacked model, or as few as memory allows."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from propml.folds import Fold
from propml.losses import power_loss
from propml.neural.criteria import Criterion, Loss, average_precision_loss
from propml.neural.network import Recipe, StackedMLP
from propml.neural.rows import MASK_ROWS, Rows
from propml.neural.training import StackTrainer, padded
from propml.progress import Bar, progress_bar

Layers = list[tuple[np.ndarray, np.ndarray]]
Start = Callable[[int, int, int], Layers | None]


@dataclass(frozen=True)
class Fleet:
    """What the training of a fleet leaves behind; arrays have the axes ``(folds, seeds, settings)``.

    Attributes
    ----------
    best : ndarray, shape (folds, seeds, settings)
        The least value of the criterion on held-out candidates; NaN where nothing was held out.
    best_epoch : ndarray of int, shape (folds, seeds, settings)
        When it was reached; the last epoch where nothing was held out.
    criterion, loss : ndarray, shape (epochs, folds, seeds, settings)
        Criterion and mean training loss after every epoch; NaN where they were not measured.
    """

    chunks: tuple[_Chunk, ...]
    settings: tuple[dict[str, float], ...]
    best: np.ndarray
    best_epoch: np.ndarray
    criterion: np.ndarray
    loss: np.ndarray

    @property
    def n_labels(self) -> int:
        return self.chunks[0].stack.shape.labels

    def layers(self, fold: int, seed: int, setting: int) -> Layers:
        """The weights ``(in, out)`` and biases of one network, layer by layer."""
        chunk = next(c for c in self.chunks if fold in c.folds and setting in c.settings)
        return chunk.layers(fold, seed, setting)

    def held_logits(self, rows: Rows, folds: Sequence[Fold], settings: Sequence[int]) -> list[np.ndarray]:
        """For each fold ``(seeds, len(settings), n_held, C)``: networks on the rows that they never saw."""
        return [
            np.concatenate(
                [
                    chunk.logits(rows, fold.held, f, [s for s in settings if s in chunk.settings])
                    for chunk in self.chunks
                    if f in chunk.folds and set(settings) & set(chunk.settings)
                ],
                axis=1,
            )
            for f, fold in enumerate(folds)
        ]


@dataclass(frozen=True)
class _Chunk:
    """The networks of some folds and some settings, which fitted into memory together."""

    stack: StackedMLP
    folds: Sequence[int]
    settings: Sequence[int]

    def _number(self, fold: int, seed: int, setting: int) -> int:
        shape = self.stack.shape
        return (self.folds.index(fold) * shape.seeds + seed) * shape.settings + self.settings.index(setting)

    def layers(self, fold: int, seed: int, setting: int) -> Layers:
        member = self.stack.member(self._number(fold, seed, setting))
        return [(w.detach().cpu().numpy().copy(), b.detach().cpu().numpy().copy()) for w, b in member]

    def logits(
        self, rows: Rows, index: np.ndarray, fold: int, settings: Sequence[int], batch: int = 1024
    ) -> np.ndarray:
        """``(seeds, len(settings), len(index), C)`` of one fold's networks."""
        shape, device = self.stack.shape, self.stack.first.device
        chosen = [self._number(fold, seed, s) for seed in range(shape.seeds) for s in settings]
        parts = [
            evaluate_stack(self.stack, rows, part.expand(shape.folds, -1))[chosen].cpu()
            for part in torch.as_tensor(index, device=device).split(batch)
        ]
        return torch.cat(parts, dim=1).numpy().reshape(shape.seeds, len(settings), len(index), shape.labels)


def train_fleet(
    rows: Rows,
    candidates: Tensor,
    folds: Sequence[Fold],
    recipe: Recipe,
    settings: Sequence[Mapping[str, float]],
    *,
    seeds: Sequence[int] = (0,),
    loss: Loss = power_loss,
    criterion: Criterion = average_precision_loss,
    targets: Tensor | None = None,
    from_odds: bool = False,
    example_weight: Tensor | None = None,
    patience: int | None = None,
    judge_every: int = 1,
    graphs: bool = True,
    bfloat16: bool = False,
    memory: int | None = None,
    start: Start | None = None,
    show: bool | None = False,
) -> Fleet:
    """Train one network per (fold, seed, setting), all at once.

    Parameters
    ----------
    rows : Rows
        The features, see :func:`propml.neural.rows.make_rows`.
    candidates : Tensor of int8, shape (n, C), on the device that is to be used
    folds : sequence of Fold
    recipe : Recipe
    settings : sequence of mappings
        Arguments of the loss that differ between networks, such as ``{"lam": 0.1, "order": 0.5}``; same keys in each.
    seeds : sequence of int
        One network each; they differ in their first weights and their dropout.
    criterion : callable
        Judges held-out candidates (smaller is better); a network keeps the weights of its best epoch.
    targets : Tensor, shape (n, C) or (folds, n, C), optional
        What the loss sees, where networks are judged by something else than what they learn from.
    from_odds : bool
        Whether the biases of the last layers start at the labels' log odds among the training rows; otherwise near 0.
    patience : int, optional
        Stop a network that has not improved for so many epochs, and everything when all have stopped.
    judge_every : int
        Epochs between two looks at the held-out rows.
    graphs : bool
        On a GPU, replay the training step as a CUDA graph.
    memory : int, optional
        Bytes that the networks in training may take; by default most of what is free. Where all of them do not fit,
        folds and settings are trained one part after the other, with the same result.
    start : callable, optional
        ``start(fold, seed, setting)`` gives layers to go on from, or ``None`` for fresh ones.
    show : bool or None
        Show a progress bar; ``None``: only where it will take longer than ten seconds.
    """
    budget = available_bytes(candidates.device) if memory is None else memory
    each = bytes_of_member(recipe, rows.n_features, candidates.shape[1], len(candidates)) * len(seeds)
    parts = _split(len(folds), len(settings), max(1, int(budget // each)))
    shape = (len(folds), len(seeds), len(settings))
    best, best_epoch = np.full(shape, np.nan), np.zeros(shape, dtype=np.int64)
    told, losses = np.full((recipe.epochs, *shape), np.nan), np.full((recipe.epochs, *shape), np.nan)
    chunks = []
    title = f"training {int(np.prod(shape))} networks"
    with progress_bar(title, recipe.epochs * len(parts), show=show) as bar:
        for fold_part, setting_part in parts:
            trainer = StackTrainer(
                rows,
                candidates,
                [folds[f] for f in fold_part],
                recipe,
                [settings[s] for s in setting_part],
                seeds,
                loss,
                targets=targets if targets is None or targets.ndim == 2 else targets[fold_part],
                from_odds=from_odds,
                example_weight=example_weight,
                bfloat16=bfloat16,
            )
            if start is not None:
                _write_start(trainer, start, fold_part, setting_part)
            if graphs and candidates.device.type == "cuda":
                trainer.capture()
            record = _train(trainer, criterion, patience, judge_every, bar)
            place = np.ix_(fold_part, range(len(seeds)), setting_part)
            local = (len(fold_part), len(seeds), len(setting_part))
            best[place] = record.best.reshape(local)
            best_epoch[place] = record.best_epoch.reshape(local)
            for store, values in ((told, record.criterion), (losses, record.loss)):
                for epoch, value in enumerate(values):
                    store[epoch][place] = value.reshape(local)
            chunks.append(_Chunk(trainer.averaged, fold_part, setting_part))
    ran = int(np.isfinite(losses).any(axis=(1, 2, 3)).sum())
    return Fleet(tuple(chunks), tuple(dict(s) for s in settings), best, best_epoch, told[:ran], losses[:ran])


@dataclass
class _Record:
    best: np.ndarray
    best_epoch: np.ndarray
    criterion: np.ndarray
    loss: np.ndarray


def _train(trainer: StackTrainer, criterion: Criterion, patience: int | None, judge_every: int, bar: Bar) -> _Record:
    """Run the epochs; at the end the trainer's averaged stack holds every network at its best epoch."""
    shape, device, whole = trainer.stack.shape, trainer.candidates.device, trainer.averaged
    longest = max(len(fold.held) for fold in trainer.folds)
    held = torch.as_tensor(padded([fold.held for fold in trainer.folds], longest), device=device)
    lengths = torch.tensor([[len(fold.held)] for fold in trainer.folds], device=device)
    counted = (torch.arange(longest, device=device) < lengths) * trainer.weight[held]
    best = torch.full((shape.members,), torch.inf, device=device)
    best_epoch = torch.zeros(shape.members, dtype=torch.long, device=device)
    running = torch.ones(shape.members, dtype=torch.bool, device=device)
    kept = [parameter.detach().clone() for parameter in trainer.stack.parameters()] if longest else []
    epochs, folds = trainer.recipe.epochs, torch.arange(shape.folds, device=device)
    # One block each: a new small tensor per epoch would keep the heap of a long training from being reused.
    told, losses = (torch.full((epochs, shape.folds, shape.per_fold), torch.nan, device=device) for _ in range(2))
    for epoch in range(1, epochs + 1):
        losses[epoch - 1, folds] = trainer.epoch().view(len(folds), -1)
        if not longest or (epoch % judge_every and epoch < epochs):
            bar.advance()
            continue
        stack = trainer.refresh_averaged()
        value = judge(stack, trainer.rows, trainer.candidates, held[folds], counted[folds], criterion)
        told[epoch - 1, folds] = value.view(len(folds), -1)
        told[epoch - 1].masked_fill_(~running.view_as(told[0]), torch.nan)
        better = told[epoch - 1].flatten() < best
        best, best_epoch = torch.where(better, told[epoch - 1].flatten(), best), torch.where(better, epoch, best_epoch)
        _keep(kept, stack, better.view_as(told[0]), folds)
        bar.advance()
        if patience is not None:
            running &= epoch - best_epoch < patience
            if not running.any():
                bar.advance(epochs - epoch)
                break
            if trainer.graph is None:
                folds = _without_stopped(trainer, running.view_as(told[0]).any(dim=1), folds)
    last = trainer.refresh_averaged()
    with torch.no_grad():
        for parameter, value in zip(whole.parameters(), kept or list(last.parameters()), strict=True):
            parameter.copy_(value)
    trainer.averaged = whole
    if not longest:
        best, best_epoch = torch.full_like(best, torch.nan), best_epoch + epochs
    return _Record(best.cpu().numpy(), best_epoch.cpu().numpy(), told.cpu().numpy(), losses.cpu().numpy())


def _without_stopped(trainer: StackTrainer, running: Tensor, folds: Tensor) -> Tensor:
    """The folds that go on; the networks of the others leave the stack, which is what large stacks save time by."""
    going = running[folds]
    if going.all():
        return folds
    trainer.go_on_with(going.nonzero().flatten().tolist())
    return folds[going]


@torch.no_grad()
def _write_start(trainer: StackTrainer, start: Start, folds: Sequence[int], settings: Sequence[int]) -> None:
    number = 0
    for fold in folds:
        for seed in range(trainer.stack.shape.seeds):
            for setting in settings:
                for (weight, bias), (new_weight, new_bias) in zip(
                    trainer.stack.member(number), start(fold, seed, setting) or [], strict=False
                ):
                    weight.copy_(torch.from_numpy(new_weight))
                    bias.copy_(torch.from_numpy(new_bias))
                number += 1


@torch.no_grad()
def evaluate_stack(stack: StackedMLP, rows: Rows, index: Tensor) -> Tensor:
    """Logits ``(members, B, C)`` on the rows ``index`` (folds, B), without dropout."""
    return stack(rows.product(index, stack.first))


@torch.no_grad()
def judge(
    stack: StackedMLP, rows: Rows, candidates: Tensor, held: Tensor, counted: Tensor, criterion: Criterion
) -> Tensor:
    """The mean criterion of every member over its fold's held-out rows, ``(members,)``; ``counted`` is their weight."""
    per_fold = stack.shape.per_fold
    total = torch.zeros(stack.shape.members, device=held.device)
    for part, real in zip(held.split(1024, dim=1), counted.split(1024, dim=1), strict=True):
        targets = candidates[part].repeat_interleave(per_fold, dim=0)
        values = criterion(evaluate_stack(stack, rows, part), targets)
        total += (values * real.repeat_interleave(per_fold, dim=0)).sum(dim=1)
    return total / counted.sum(dim=1).clamp(min=1e-12).repeat_interleave(per_fold)


@torch.no_grad()
def _keep(kept: list[Tensor], stack: StackedMLP, better: Tensor, folds: Tensor) -> None:
    """Copy the parameters of the members that improved; ``better`` is (folds, members per fold), of all folds."""
    for old, parameter in zip(kept, stack.parameters(), strict=True):
        rows, new = old.unflatten(0, (len(better), -1)), parameter.unflatten(0, (len(folds), -1))
        if parameter is stack.first:
            chosen = better.repeat_interleave(stack.first_width, dim=1)[:, None, None]
        else:
            chosen = better[:, :, None, None]
        rows[folds] = torch.where(chosen[folds], new, rows[folds])


def _split(folds: int, settings: int, fits: int) -> list[tuple[list[int], list[int]]]:
    """Parts of (folds, settings) with at most ``fits`` members per seed each; whole folds where possible."""
    if fits >= settings:
        step = fits // settings
        return [(list(range(a, min(a + step, folds))), list(range(settings))) for a in range(0, folds, step)]
    return [([f], list(range(a, min(a + fits, settings)))) for f in range(folds) for a in range(0, settings, fits)]


# Weights, gradient, two moments, running mean, the evaluated copy and the best one.
COPIES = 7


def bytes_of_member(recipe: Recipe, n_features: int, n_labels: int, n_rows: int) -> int:
    """Bytes that one network of a recipe needs while it is trained."""
    widths = [n_features, *recipe.hidden, n_labels]
    weights = sum((a + 1) * b for a, b in itertools.pairwise(widths))
    # Activations of a batch, forward and backward, and of a block of 1024 rows that is judged.
    activations = (6 * recipe.batch_size + 2 * 1024) * (sum(widths[1:]) + 4 * n_labels)
    masks = min(n_rows, MASK_ROWS) * sum(recipe.hidden) if recipe.dropout else 0
    return 4 * (COPIES * weights + activations + masks)


def available_bytes(device: torch.device) -> int:
    """What a fleet may take: 80 % of the GPU's free memory, or half of the machine's."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(0.8 * free)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):  # not on every system
        return 4 * 2**30

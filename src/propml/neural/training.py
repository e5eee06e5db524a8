"""One stack in training: parameters, optimiser, streams of random numbers, and the step that a GPU replays."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from propml.folds import Fold
from propml.neural.criteria import Loss
from propml.neural.network import Recipe, StackedMLP, StackShape
from propml.neural.rows import MASK_ROWS, Rows, gathered, keep_mask

# Steps between two updates of the running mean of the weights: it reads and writes as much as half an Adam step.
AVERAGE_EVERY = 8


class StackTrainer:
    """Trains ``folds × seeds × settings`` networks, epoch by epoch.

    Random numbers come from streams of their own (the order of rows per fold; weights and dropout per fold and seed),
    so a member learns the same whether it is trained alone or among hundreds.

    Parameters
    ----------
    rows : Rows
    candidates : Tensor of int8, shape (n, C), on the device that is to be used
    folds : sequence of Fold
    recipe : Recipe
    settings : sequence of mappings
        Arguments of the loss that differ between members, such as ``{"lam": 0.1}``; the same keys in each.
    seeds : sequence of int
    loss : callable
    targets : Tensor, shape (n, C) or (folds, n, C), optional
        What the loss sees, where networks are judged by something else; all folds the same, or each its own.
    from_odds : bool
        Whether the biases of the last layer start at the log odds of the labels among the rows that each fold is
        trained on; by default near 0.
    example_weight : Tensor, shape (n,), optional
    bfloat16 : bool
        Multiply matrices in bfloat16.
    """

    def __init__(
        self,
        rows: Rows,
        candidates: Tensor,
        folds: Sequence[Fold],
        recipe: Recipe,
        settings: Sequence[Mapping[str, float]],
        seeds: Sequence[int],
        loss: Loss,
        *,
        targets: Tensor | None = None,
        from_odds: bool = False,
        example_weight: Tensor | None = None,
        bfloat16: bool = False,
    ) -> None:
        device = candidates.device
        self.rows, self.candidates, self.folds, self.recipe, self.loss = rows, candidates, folds, recipe, loss
        self.bfloat16 = bfloat16
        self.targets = candidates if targets is None else targets
        counts = len(folds), len(seeds), len(settings)
        shape = StackShape(*counts, rows.n_features, candidates.shape[1], rows.n_columns)
        streams = [(fold.name, seed) for fold in folds for seed in seeds]
        starts = [torch.Generator().manual_seed(_mixed(1, *stream)) for stream in streams]
        self.stack = StackedMLP(shape, recipe, starts).to(device)
        if from_odds:
            odds = torch.stack([log_odds(self.targets[torch.as_tensor(fold.train, device=device)]) for fold in folds])
            self.stack.biases[-1].data.copy_(odds.repeat_interleave(shape.per_fold, dim=0).unsqueeze(1))
        self.averaged = StackedMLP(shape, recipe, starts).to(device) if recipe.ema else self.stack
        self.mean = [torch.zeros_like(p) for p in self.stack.parameters()] if recipe.ema else []
        self.steps_done = 0
        self.order_generators = [torch.Generator().manual_seed(_mixed(2, fold.name)) for fold in folds]
        self.input_generators = [torch.Generator(device).manual_seed(_mixed(3, fold.name)) for fold in folds]
        self.mask_generators = [torch.Generator(device).manual_seed(_mixed(4, *stream)) for stream in streams]
        self.settings = {
            key: torch.tensor([float(s[key]) for s in settings], device=device).repeat(len(streams)).unsqueeze(1)
            for key in settings[0]
        }
        self.weight = torch.ones(len(candidates), device=device) if example_weight is None else example_weight
        longest = max(len(fold.train) for fold in folds)
        self.steps = max(1, round(longest / recipe.batch_size))
        self.per_step = -(-longest // self.steps)
        room = (len(folds), self.steps, self.per_step)
        # What a step reads: written once per epoch, in place, since a CUDA graph reads these very buffers.
        self.order = torch.zeros(room, dtype=torch.long, device=device)
        self.share = torch.zeros(room, device=device)
        self.at = torch.zeros(1, dtype=torch.long, device=device)
        widths = recipe.hidden if recipe.dropout > 0 else ()
        n_masks = min(len(candidates), MASK_ROWS)
        self.masks = [torch.zeros(len(streams), n_masks, width, device=device) for width in widths]
        over_features = (len(folds), *rows.mask_shape)
        self.input_mask = torch.zeros(over_features, device=device) if recipe.input_dropout > 0 else None
        self.total = torch.zeros(shape.members, device=device)
        self.optimiser = self._optimiser()
        self.graph: torch.cuda.CUDAGraph | None = None

    def _optimiser(self) -> torch.optim.Optimizer:
        first = self.stack.first
        decayed = [p for p in self.stack.parameters() if p is first or p.shape[1] > 1]
        spared = [p for p in self.stack.parameters() if not (p is first or p.shape[1] > 1)]
        return torch.optim.AdamW(
            [{"params": decayed, "weight_decay": self.recipe.weight_decay}, {"params": spared, "weight_decay": 0.0}],
            lr=self.recipe.learning_rate,
            fused=True,
            capturable=first.device.type == "cuda",
        )

    def epoch(self) -> Tensor:
        """Train every member on all of its rows once; returns their mean losses, ``(members,)``."""
        self._shuffle()
        self.total.zero_()
        self.at.zero_()
        for step in range(1, self.steps + 1):
            if self.graph is None:
                self._step()
            else:
                self.graph.replay()
            if step % AVERAGE_EVERY == 0 or step == self.steps:
                self._average((step - 1) % AVERAGE_EVERY + 1)
        self.steps_done += self.steps
        return self.total / self.steps

    @torch.no_grad()
    def _average(self, steps: int) -> None:
        """Move the running mean of the weights by so many steps at once."""
        if self.mean:
            torch._foreach_lerp_(self.mean, list(self.stack.parameters()), 1 - self.recipe.ema**steps)

    def capture(self) -> None:
        """Record one step as a CUDA graph; parameters, optimiser and random numbers are put back as they were."""
        self._shuffle(draw=False)
        before = [p.detach().clone() for p in self.stack.parameters()]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.at.zero_()
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        self.at.zero_()
        with torch.cuda.graph(self.graph):
            self._step()
        with torch.no_grad():
            for parameter, value in zip(self.stack.parameters(), before, strict=True):
                parameter.copy_(value)
            for state in self.optimiser.state.values():
                for value in state.values():
                    value.zero_()

    @torch.no_grad()
    def go_on_with(self, folds: Sequence[int]) -> None:
        """Train the networks of these folds only, numbered among those that are still there; the others are done.

        They learn on as if nothing had happened. A step that was recorded as a CUDA graph cannot change its shape.
        """
        before = self.stack.shape.folds

        def part(values: Tensor) -> Tensor:
            return values.unflatten(0, (before, -1))[folds].flatten(0, 1)

        states = [self.optimiser.state[parameter] for parameter in self.stack.parameters()]
        self.stack = _with_folds(self.stack, part, len(folds))
        self.averaged = _with_folds(self.averaged, part, len(folds)) if self.recipe.ema else self.stack
        self.mean = [part(mean) for mean in self.mean]
        self.optimiser = self._optimiser()
        for parameter, state in zip(self.stack.parameters(), states, strict=True):
            self.optimiser.state[parameter] = {n: part(v) if v.ndim else v for n, v in state.items()}
        self.settings = {key: part(value) for key, value in self.settings.items()}
        self.targets = self.targets if self.targets.ndim == 2 else self.targets[folds]
        self.folds = [self.folds[f] for f in folds]
        self.order_generators = [self.order_generators[f] for f in folds]
        self.input_generators = [self.input_generators[f] for f in folds]
        seeds = self.stack.shape.seeds
        self.mask_generators = [self.mask_generators[f * seeds + i] for f in folds for i in range(seeds)]
        self.order, self.share, self.total = part(self.order), part(self.share), part(self.total)
        self.masks = [part(mask) for mask in self.masks]
        self.input_mask = None if self.input_mask is None else part(self.input_mask)

    @torch.no_grad()
    def refresh_averaged(self) -> StackedMLP:
        """The running mean of the weights, corrected for its start at zero, as a stack that can be evaluated."""
        scale = 1 - self.recipe.ema**self.steps_done
        if self.mean:
            for parameter, mean in zip(self.averaged.parameters(), self.mean, strict=True):
                parameter.copy_(mean / scale)
        return self.averaged

    def _shuffle(self, *, draw: bool = True) -> None:
        """A new order of rows, and new dropout masks, for one epoch; each from its own stream of random numbers."""
        for f, fold in enumerate(self.folds):
            n = len(fold.train)
            order = torch.randperm(n, generator=self.order_generators[f]) if draw else torch.arange(n)
            parts = np.array_split(fold.train[order.numpy()], self.steps)
            self.order[f] = torch.as_tensor(padded(parts, self.per_step))
            counts = torch.tensor([[len(part)] for part in parts])
            self.share[f] = (torch.arange(self.per_step) < counts) / counts.clamp(min=1)
        self.share.mul_(self.weight[self.order])
        for mask in self.masks:
            _draw(mask, self.recipe.dropout, self.mask_generators, draw)
        if self.input_mask is not None:
            _draw(self.input_mask, self.recipe.input_dropout, self.input_generators, draw)

    def _step(self) -> None:
        index = self.order.index_select(1, self.at).squeeze(1)
        share = self.share.index_select(1, self.at).squeeze(1)
        per_fold, seeds = self.stack.shape.per_fold, self.stack.shape.seeds
        masks = [gathered(mask, index.repeat_interleave(seeds, dim=0)) for mask in self.masks]
        with torch.autocast(index.device.type, torch.bfloat16, enabled=self.bfloat16):
            wide = self.rows.product(index, self.stack.first, self.input_mask)
            logits = self.stack(wide, masks)
        targets = self._targets_of(index).repeat_interleave(per_fold, dim=0)
        values = self.loss(logits.float(), targets, **self.settings)
        loss = (values * share.repeat_interleave(per_fold, dim=0)).sum(dim=1)
        loss.sum().backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.total += loss.detach()
        self.at += 1

    def _targets_of(self, index: Tensor) -> Tensor:
        """What the loss sees of the rows ``index`` (folds, B), ``(folds, B, C)``."""
        if self.targets.ndim == 2:
            return self.targets[index]
        return self.targets[torch.arange(len(index), device=index.device).unsqueeze(1), index]


def _with_folds(stack: StackedMLP, part: Callable[[Tensor], Tensor], folds: int) -> StackedMLP:
    """A copy of the stack with a part of its parameters."""
    smaller = copy.deepcopy(stack)
    smaller.shape = replace(stack.shape, folds=folds)
    for parameter in smaller.parameters():
        parameter.data = part(parameter.data)
    return smaller


def log_odds(candidates: Tensor) -> Tensor:
    """The log odds of each label among the known entries, ``(C,)``: where the biases of a last layer start.

    >>> log_odds(torch.tensor([[1, 0], [1, 0], [0, -1], [0, 0]]))  # 2 of 4, with half a row added to both sides
    tensor([ 0.0000, -1.9459])
    """
    hits, known = (candidates > 0).sum(dim=0), (candidates >= 0).sum(dim=0)
    return torch.log((hits + 0.5) / (known - hits + 0.5))


def padded(parts: Sequence[np.ndarray], length: int) -> np.ndarray:
    """Index arrays as one matrix, filled up with row 0 (which nobody counts there)."""
    matrix = np.zeros((len(parts), length), dtype=np.int64)
    for row, part in zip(matrix, parts, strict=True):
        row[: len(part)] = part
    return matrix


def _draw(masks: Tensor, rate: float, generators: Sequence[torch.Generator], draw: bool) -> None:
    """New dropout masks, in place, each from its own stream, or from a copy where its numbers are not to be used up."""
    for mask, generator in zip(masks, generators, strict=True):
        keep_mask(tuple(mask.shape), rate, generator if draw else generator.clone_state(), out=mask)


def _mixed(*numbers: int) -> int:
    """One seed from several numbers, far apart for neighbours."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)

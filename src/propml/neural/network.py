"""Many small networks as one: parameters are stacked, so that a layer of all of them is one batched product.

A stack holds ``folds × seeds × settings`` members, in that order. Members of one fold see the same rows, so their first
layers are one wide product ``(B, D) @ (D, members · H)``; members of one (fold, seed) start from the same weights and
share their dropout, so that settings (λ) differ in nothing else.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from propml.neural.rows import keep_scale


@dataclass(frozen=True)
class Recipe:
    """One kind of network: everything that all members of a stack have in common.

    Parameters
    ----------
    hidden : tuple of int
        Widths of the hidden layers; empty for a linear model.
    dropout, input_dropout : float
        Chance that a hidden unit, or a feature, is silent during a training step.
    epochs, batch_size, learning_rate, weight_decay
        Adam; the decay is decoupled and spares biases.
    ema : float
        Decay per step of the running mean of the weights, which is what is evaluated and kept; 0 keeps the raw ones.
    """

    hidden: tuple[int, ...] = (256, 256)
    dropout: float = 0.5
    input_dropout: float = 0.0
    epochs: int = 100
    batch_size: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    ema: float = 0.99

    def __post_init__(self) -> None:
        if any(width < 1 for width in self.hidden):
            raise ValueError(f"hidden is {self.hidden}; every layer needs at least one unit")
        for name in ("dropout", "input_dropout", "ema"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it lies in [0, 1)")
        for name in ("epochs", "batch_size", "learning_rate"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is {getattr(self, name)}; it must be positive and finite")
        if not 0 <= self.weight_decay < float("inf"):
            raise ValueError(f"weight_decay is {self.weight_decay}; give a number of at least 0")


@dataclass(frozen=True)
class StackShape:
    """How many members there are, and of what size."""

    folds: int
    seeds: int
    settings: int
    features: int
    labels: int
    columns: int  # of the batches: features, and zeros that fill them up

    @property
    def per_fold(self) -> int:
        return self.seeds * self.settings

    @property
    def members(self) -> int:
        return self.folds * self.per_fold


class StackedMLP(nn.Module):
    """``members`` multi-layer perceptrons that train at once.

    Parameters
    ----------
    shape : StackShape
    recipe : Recipe
    generators : sequence of torch.Generator, one per (fold, seed)
        Where the initial weights come from; drawn on the CPU, so that every device starts from the same numbers.
    """

    def __init__(self, shape: StackShape, recipe: Recipe, generators: Sequence[torch.Generator]) -> None:
        super().__init__()
        self.shape, self.recipe = shape, recipe
        widths = [shape.features, *recipe.hidden, shape.labels]
        self.first_width = widths[1]
        drawn = [_drawn(generators, inputs, outputs) for inputs, outputs in itertools.pairwise(widths)]
        weights, biases = zip(*drawn, strict=True)
        self.first = nn.Parameter(self._side_by_side(weights[0]))
        self.weights = nn.ParameterList(self._stacked(weight) for weight in weights[1:])
        self.biases = nn.ParameterList(self._stacked(bias.unsqueeze(1)) for bias in biases)

    def _stacked(self, drawn: Tensor) -> Tensor:
        """(folds·seeds, …) → (members, …), the same start for every setting."""
        return drawn.repeat_interleave(self.shape.settings, dim=0)

    def _side_by_side(self, drawn: Tensor) -> Tensor:
        """(folds·seeds, D, H) → (folds, columns, members per fold · H): the members of a fold as one wide layer."""
        members = self._stacked(pad(drawn, (0, 0, 0, self.shape.columns - drawn.shape[1])))
        d, h = members.shape[1:]
        wide = members.view(self.shape.folds, self.shape.per_fold, d, h).permute(0, 2, 1, 3)
        return wide.reshape(self.shape.folds, d, self.shape.per_fold * h)

    def forward(self, wide: Tensor, masks: Sequence[Tensor] = ()) -> Tensor:
        """Logits ``(members, B, C)`` from the wide first product ``(folds, B, members per fold · H)``.

        ``masks`` holds one scaled dropout mask ``(folds·seeds, B, H)`` per hidden layer, or nothing in evaluation.
        """
        hidden = self._apart(wide) + self.biases[0]
        for layer, (weight, bias) in enumerate(zip(self.weights, list(self.biases)[1:], strict=True)):
            hidden = _Silenced.apply(hidden, masks[layer], self.recipe.dropout) if masks else torch.relu(hidden)
            hidden = torch.baddbmm(bias, hidden, weight)
        return hidden

    def _apart(self, wide: Tensor) -> Tensor:
        """(folds, B, members per fold · H) → (members, B, H)."""
        folds, rows, _ = wide.shape
        apart = wide.view(folds, rows, self.shape.per_fold, self.first_width).transpose(1, 2)
        return apart.reshape(self.shape.members, rows, self.first_width)

    def member(self, k: int) -> list[tuple[Tensor, Tensor]]:
        """The weights ``(in, out)`` and biases of member ``k``, layer by layer."""
        fold, place = divmod(k, self.shape.per_fold)
        own = slice(place * self.first_width, (place + 1) * self.first_width)
        layers = [(self.first[fold, : self.shape.features, own], self.biases[0][k, 0])]
        layers += [(w[k], b[k, 0]) for w, b in zip(self.weights, list(self.biases)[1:], strict=True)]
        return layers


class _Silenced(torch.autograd.Function):
    """ReLU and dropout in place: large stacks wait for memory, and this reads and writes it half as often.

    A value above 0 came through both, multiplied by 1 / (1 − dropout), and so does its gradient; one of 0 lets none
    through. That is what the gradient of an exponential linear unit without its exponential does in one pass.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, mask: Tensor, dropout: float) -> Tensor:
        """``hidden`` is ``(members, B, H)``; ``mask`` is ``(folds·seeds, B, H)``, scaled, for all settings of each."""
        ctx.mark_dirty(hidden)
        hidden.relu_().view(len(mask), -1, *mask.shape[1:]).mul_(mask.unsqueeze(1))
        ctx.save_for_backward(hidden)
        ctx.scale = keep_scale(dropout)
        return hidden

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        (hidden,) = ctx.saved_tensors
        return torch.ops.aten.elu_backward(grad_output, 0.0, ctx.scale, 1.0, True, hidden), None, None


def _drawn(generators: Sequence[torch.Generator], inputs: int, outputs: int) -> tuple[Tensor, Tensor]:
    """A linear layer per generator, uniform in ±1/√inputs as ``torch.nn.Linear``."""
    bound = 1 / math.sqrt(max(inputs, 1))
    weight = torch.stack([torch.empty(inputs, outputs).uniform_(-bound, bound, generator=g) for g in generators])
    bias = torch.stack([torch.empty(outputs).uniform_(-bound, bound, generator=g) for g in generators])
    return weight, bias

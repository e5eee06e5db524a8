"""What a fitted classifier is: one plain module from raw features to logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from propml.neural.encoding import FeatureScaler, QuantileBins
from propml.neural.fleet import Layers
from propml.neural.forest import Forest
from propml.neural.judgement import true_logits


@dataclass(frozen=True)
class Standard:
    """Mean and standard deviation of a member's held-out logits: what makes members comparable."""

    mean: float = 0.0
    deviation: float = 1.0

    @classmethod
    def of(cls, logits: np.ndarray) -> Standard:
        """Over the rows that were held out; the others are NaN."""
        seen = logits[np.isfinite(logits[:, 0])]
        if not len(seen):
            return cls()
        deviation = float(seen.std())
        return cls(float(seen.mean()), deviation if deviation > 1e-9 else 1.0)

    def apply(self, logits: Any) -> Any:
        return (logits - self.mean) / self.deviation


class Networks(nn.Module):
    """Networks of one architecture: encoded features → their mean logit.

    They look at as many columns, from the first on, as they have weights for: scaled columns come before their bins.

    Parameters
    ----------
    members : sequence of Layers
        Weights ``(in, out)`` and biases of each network.
    """

    def __init__(self, members: Sequence[Layers]) -> None:
        super().__init__()
        depth = len(members[0])
        stacked = [np.stack([layers[i][0] for layers in members]) for i in range(depth)]
        biases = [np.stack([layers[i][1] for layers in members])[:, None] for i in range(depth)]
        self.weights = nn.ParameterList(nn.Parameter(torch.from_numpy(w), requires_grad=False) for w in stacked)
        self.biases = nn.ParameterList(nn.Parameter(torch.from_numpy(b), requires_grad=False) for b in biases)

    def widths(self) -> list[int]:
        """Features, units of the hidden layers, labels."""
        return [self.weights[0].shape[1], *(weight.shape[2] for weight in self.weights)]

    def forward(self, X: Tensor) -> Tensor:
        hidden = X[:, : self.weights[0].shape[1]]
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = torch.matmul(torch.relu(hidden) if layer else hidden, weight) + bias
        return hidden.mean(dim=0)


class Ensemble(nn.Module):
    """Features ``(n, D)`` → logits ``(n, C)``: positive where a label is predicted.

    The members' standardised logits are averaged with their weights; a sigmoid makes P(candidate) of that, each
    label's noise rate is taken away, and the threshold is subtracted.

    Parameters
    ----------
    scaler : FeatureScaler
    bins : QuantileBins or None
        The bins follow the scaled columns, which is all that a forest and a linear model look at.
    members : sequence of modules
        :class:`Networks` or :class:`propml.neural.forest.Forest`.
    standards, weights : sequences
        One for each member; weights sum to 1.
    slope, offset : float
        The sigmoid.
    rate : Tensor, shape (n_labels,)
        Noise rate of each label; 0 for none.
    threshold : float
        Logit of P(true) above which a label is predicted.
    """

    rate: Tensor

    def __init__(
        self,
        scaler: FeatureScaler,
        bins: QuantileBins | None,
        members: Sequence[nn.Module],
        standards: Sequence[Standard],
        weights: Sequence[float],
        slope: float,
        offset: float,
        rate: Any,
        threshold: float,
    ) -> None:
        super().__init__()
        self.scaler, self.bins, self.members = scaler, bins, nn.ModuleList(members)
        self.standards, self.weights = list(standards), list(weights)
        self.slope, self.offset, self.threshold = slope, offset, threshold
        self.register_buffer("rate", torch.as_tensor(rate, dtype=torch.float32))
        self.has_noise = bool(self.rate.any())

    def forward(self, X: Tensor) -> Tensor:
        scaled = self.scaler(X)
        encoded = scaled if self.bins is None else self.bins(scaled)
        opinion = sum(
            weight * standard.apply(member(encoded).to(scaled.dtype))
            for member, standard, weight in zip(self.members, self.standards, self.weights, strict=True)
        )
        return self.judged(opinion) - self.threshold

    def values_per_row(self) -> int:
        """About how many numbers a row takes on its way through."""
        columns = self.scaler.n_outputs + (0 if self.bins is None else self.bins.n_added)
        leaves = [member.roots.numel() * len(self.rate) for member in self.members if isinstance(member, Forest)]
        return max(columns, *leaves, 1)

    def judged(self, opinion: Any) -> Tensor:
        """Logits of P(true) from the members' average."""
        logits: Tensor = self.slope * opinion + self.offset
        return true_logits(logits, self.rate.to(logits.dtype)) if self.has_noise else logits

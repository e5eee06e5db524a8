"""What a fitted classifier is: a plain module of scaled features, a few networks and a linear partner, averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from propml.neural.features import FeatureScaler
from propml.neural.fleet import Layers


@dataclass(frozen=True)
class Standard:
    """Mean and standard deviation of an expert's held-out logits: what makes experts comparable."""

    mean: float = 0.0
    deviation: float = 1.0

    @classmethod
    def of(cls, logits: np.ndarray) -> Standard:
        deviation = float(logits.std())
        return cls(float(logits.mean()), deviation if deviation > 1e-9 else 1.0)

    def apply(self, logits: Any) -> Any:
        return (logits - self.mean) / self.deviation


class Networks(nn.Module):
    """Networks of one architecture; their mean logit, standardised, is one expert's opinion.

    Parameters
    ----------
    members : sequence of Layers
        Weights ``(in, out)`` and biases of each network.
    standard : Standard
    """

    def __init__(self, members: Sequence[Layers], standard: Standard) -> None:
        super().__init__()
        self.standard = standard
        depth = len(members[0])
        stacked = [np.stack([layers[i][0] for layers in members]) for i in range(depth)]
        biases = [np.stack([layers[i][1] for layers in members])[:, None] for i in range(depth)]
        self.weights = nn.ParameterList(nn.Parameter(torch.from_numpy(w), requires_grad=False) for w in stacked)
        self.biases = nn.ParameterList(nn.Parameter(torch.from_numpy(b), requires_grad=False) for b in biases)

    def widths(self) -> list[int]:
        """Features, units of the hidden layers, labels."""
        return [self.weights[0].shape[1], *(weight.shape[2] for weight in self.weights)]

    def forward(self, X: Tensor) -> Tensor:
        hidden = X
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = torch.matmul(torch.relu(hidden) if layer else hidden, weight) + bias
        return self.standard.apply(hidden.mean(dim=0))


class Linear(nn.Module):
    """A ridge regression on candidates as an expert: its score, cut to [0.01, 0.99], as a standardised logit."""

    def __init__(self, weight: np.ndarray, bias: np.ndarray, standard: Standard) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.from_numpy(weight.astype(np.float32)), requires_grad=False)
        self.bias = nn.Parameter(torch.from_numpy(bias.astype(np.float32)), requires_grad=False)
        self.standard = standard

    def forward(self, X: Tensor) -> Tensor:
        return self.standard.apply(torch.logit((X @ self.weight + self.bias).clamp(0.01, 0.99)))


class Ensemble(nn.Module):
    """Features ``(n, D)`` → logits ``(n, C)``: positive where a label is predicted.

    ``slope · (Σ share · expert(scaled X) − threshold)``.
    """

    def __init__(
        self,
        scaler: FeatureScaler,
        experts: Sequence[nn.Module],
        shares: Sequence[float],
        slope: float,
        threshold: float,
    ) -> None:
        super().__init__()
        self.scaler = scaler
        self.experts = nn.ModuleList(experts)
        self.shares, self.slope, self.threshold = list(shares), slope, threshold

    def forward(self, X: Tensor) -> Tensor:
        scaled = self.scaler(X)
        opinion = sum(share * expert(scaled) for share, expert in zip(self.shares, self.experts, strict=True))
        return self.slope * (opinion - self.threshold)

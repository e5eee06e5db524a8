r"""Query2Label: one learned query per label looks at the feature map of any backbone.

Liu, Zhang, Yang, Su, Zhu: Query2Label: A Simple Transformer Way to Multi-Label Classification. 2021.

The feature map ``(B, F, h, w)`` is projected to ``width`` channels; one transformer encoder layer runs over its ``h·w``
places, and two decoder layers let the C queries attend to them. Each label has its own linear read-out:

.. math:: z_c = \langle W_c, h_c \rangle + b_c, \quad W, b \sim U(-1/\sqrt{width}, 1/\sqrt{width})

Positions are told by the sines and cosines of two axes, added to queries and keys in attention. The first decoder layer
has no self-attention: before they have seen the image the queries have nothing to tell each other.

Deviations
----------
Dropout 0.1, the position encoding and the missing first self-attention are as remembered from the official code, which
was not at hand. Their loss is the asymmetric one with γ₊ = 0, γ₋ = 2 and no clip: ``METHODS["Query2Label"]``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

HEADS, DROPOUT = 4, 0.1


class Query2Label(nn.Module):
    """Logits from a feature map of ``n_features`` channels, one query per label."""

    def __init__(self, n_features: int, n_labels: int, *, width: int, feedforward: int) -> None:
        super().__init__()
        if width % HEADS:  # the positions need a multiple of 4, too
            raise ValueError(f"the width of Query2Label is {width}; give a multiple of its {HEADS} heads")
        self.width = width
        self.project = nn.Conv2d(n_features, width, 1)
        self.queries = nn.Parameter(torch.randn(n_labels, width))
        self.encoder = nn.ModuleList([_Layer(width, feedforward, sees_map=False)])
        self.decoder = nn.ModuleList(_Layer(width, feedforward, sees_itself=sees) for sees in (False, True))
        bound = 1 / math.sqrt(width)
        self.weight = nn.Parameter(torch.empty(n_labels, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(n_labels).uniform_(-bound, bound))

    def forward(self, feature_map: Tensor) -> Tensor:
        """Logits ``(B, n_labels)`` from a feature map ``(B, n_features, h, w)``."""
        projected = self.project(feature_map)
        batch, _, height, width = projected.shape
        places = projected.flatten(2).transpose(1, 2)  # (B, h·w, width)
        where = sine_positions(height, width, self.width, places.device).to(places.dtype)
        for layer in self.encoder:
            places = layer(places, where)
        queries = self.queries.to(places.dtype)
        labels = torch.zeros(batch, *queries.shape, dtype=places.dtype, device=places.device)
        for layer in self.decoder:
            labels = layer(labels, queries, places, where)
        return (labels * self.weight).sum(dim=-1) + self.bias


class _Layer(nn.Module):
    """Self-attention, attention to the feature map, feed-forward; each added to its input and then normalised."""

    def __init__(self, width: int, feedforward: int, *, sees_map: bool = True, sees_itself: bool = True) -> None:
        super().__init__()
        self.itself = _Attention(width) if sees_itself else None
        self.map = _Attention(width) if sees_map else None
        inner, outer = nn.Linear(width, feedforward), nn.Linear(feedforward, width)
        self.feedforward = nn.Sequential(inner, nn.ReLU(), nn.Dropout(DROPOUT), outer, nn.Dropout(DROPOUT))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, x_where: Tensor, places: Tensor | None = None, where: Tensor | None = None) -> Tensor:
        if self.itself is not None:
            x = self.itself(x, x + x_where, x + x_where, x)
        if self.map is not None and places is not None and where is not None:
            x = self.map(x, x + x_where, places + where, places)
        return self.norm(x + self.feedforward(x))


class _Attention(nn.Module):
    """Multi-head attention, added to ``x`` and normalised."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(width, HEADS, dropout=DROPOUT, batch_first=True)
        self.dropout = nn.Dropout(DROPOUT)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        seen, _ = self.attend(query, key, value, need_weights=False)
        return self.norm(x + self.dropout(seen))


def sine_positions(height: int, width: int, channels: int, device: torch.device | str = "cpu") -> Tensor:
    """Where each place of a ``height × width`` map lies, as sines and cosines, shape ``(height * width, channels)``.

    Half of the channels tell the row, half the column; both run from 0 to 2π over the map.
    """
    frequency = 10_000 ** (-torch.arange(0, channels // 2, 2, device=device) / (channels // 2))

    def along(length: int) -> Tensor:
        angle = torch.arange(1, length + 1, device=device)[:, None] / length * (2 * math.pi) * frequency
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)

    rows, columns = along(height)[:, None].expand(-1, width, -1), along(width)[None].expand(height, -1, -1)
    return torch.cat([rows, columns], dim=-1).flatten(0, 1)

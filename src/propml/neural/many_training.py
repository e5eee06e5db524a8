"""Training of a :class:`~propml.neural.many_labels.ManyLabelNetwork`, judged epoch by epoch on held-out candidates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from propml.neural.many_labels import (
    Cells,
    DenseInput,
    LabelSample,
    ManyLabelNetwork,
    RowTable,
    SparseInput,
    batch_logits,
    held_out_ndcg,
)
from propml.neural.thresholds import candidate_sigmoid
from propml.progress import progress_bar


@dataclass(frozen=True)
class ManyRecipe:
    """How the network is trained; the arguments of :class:`propml.methods.ManyLabelClassifier`, made definite."""

    loss: Callable[..., Tensor]
    lam: float
    n_sampled: int
    frequent: float
    dropout: float
    epochs: int
    patience: int
    batch_size: int
    learning_rate: float
    table_rate: float
    k: int


def label_log_odds(states: sp.csr_array) -> np.ndarray:
    """The log odds of each label among its known entries, from the stored ones, ``(n_labels,)``."""
    hits = np.bincount(states.indices[states.data > 0], minlength=states.shape[1])
    stored = np.bincount(states.indices, minlength=states.shape[1])
    return np.log((hits + 0.5) / (states.shape[0] - stored + 0.5))


def train_network(
    network: ManyLabelNetwork,
    features: SparseInput | DenseInput,
    candidates: Cells,
    train: Tensor,
    held: Tensor,
    recipe: ManyRecipe,
    seed: int,
    show: bool | None,
) -> list[dict[str, float]]:
    """Train in place; the network ends with the weights of its best epoch on the ``held`` rows, or of the last one.

    Returns
    -------
    list of dict
        For each epoch the mean loss and, on held-out rows, ``"ndcg"`` of the candidates.
    """
    device = train.device
    order, masks = torch.Generator().manual_seed(seed), torch.Generator(device).manual_seed(seed + 1)
    counts = torch.bincount(candidates.columns[candidates.values > 0], minlength=candidates.shape[1])
    sample = LabelSample(counts.cpu().numpy(), recipe.n_sampled, recipe.frequent, device, seed + 2)
    table, bias = RowTable(network.table.data), RowTable(network.bias.data.unsqueeze(1))
    sparse = isinstance(features, SparseInput)
    first: Any = RowTable(network.weights[0].data) if sparse else network.weights[0]
    tables = [table, bias, *([first] if sparse else [])]
    dense = [*network.weights[1 if sparse else 0 :], *network.biases]
    optimiser = torch.optim.Adam(dense, lr=recipe.learning_rate)
    history, best, kept = [], -math.inf, None
    with progress_bar("training", recipe.epochs, show=show, long_steps=True) as bar:
        for epoch in range(recipe.epochs):
            total = torch.zeros((), device=device)
            shuffled = train[torch.randperm(len(train), generator=order).to(device)]
            for rows in shuffled.split(recipe.batch_size):
                h = network.hidden(features.product(rows, first), recipe.dropout, masks)
                logits = batch_logits(h, candidates.of(rows), sample.draw(), table, bias)
                values = recipe.loss(**logits, weight=sample.weight, lam=recipe.lam)
                values.mean().backward()
                optimiser.step()
                optimiser.zero_grad()
                for each in tables:
                    each.step(recipe.table_rate)
                total += values.detach().sum()
            ndcg = held_out_ndcg(network, features, candidates, held, recipe.k) if len(held) else math.nan
            history.append({"loss": float(total) / len(train), **({"ndcg": ndcg} if ndcg == ndcg else {})})
            bar.advance(note=f"nDCG@{recipe.k} of held-out candidates {ndcg:.3f}")
            if ndcg > best:
                best, last_better = ndcg, epoch
                kept = {name: value.clone() for name, value in network.state_dict().items()}
            elif kept is not None and epoch - last_better >= recipe.patience:
                break
    if kept is not None:
        network.load_state_dict(kept)
    return history


@torch.no_grad()
def held_out_sigmoid(
    network: ManyLabelNetwork,
    features: SparseInput | DenseInput,
    candidates: Cells,
    held: Tensor,
    recipe: ManyRecipe,
    seed: int,
) -> tuple[float, float]:
    """Slope and offset of the sigmoid that predicts held-out candidates best, from them and a sample of the others."""
    if not len(held):
        return 1.0, 0.0
    sample = LabelSample(np.zeros(candidates.shape[1]), recipe.n_sampled, 0.0, held.device, seed)
    scores, states, weights = [], [], []
    for rows in held.split(recipe.batch_size):
        h = network.hidden(features.product(rows, network.weights[0]))
        table, bias = RowTable(network.table.data), RowTable(network.bias.data.unsqueeze(1))
        logits = batch_logits(h, candidates.of(rows), sample.draw(), table, bias)
        for kind, state, weight in (("candidate", 1, 1.0), ("excluded", 0, float(sample.weight[-1]))):
            found = logits[f"{kind}_logits"][logits[f"{kind}_mask"]].cpu().numpy()
            scores.append(found)
            states.append(np.full(len(found), state))
            weights.append(np.full(len(found), weight))
    column = [np.concatenate(parts) for parts in (scores, states, weights)]
    return candidate_sigmoid(column[0][:, None], column[1][:, None], column[2])

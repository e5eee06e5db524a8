"""A network over very many labels: only the rows of its tables that a batch touches are read and written.

Features go through hidden layers to ``h`` (H numbers); label j has a row of the output table and a bias, and the logit
``h · table[j] + bias[j]``. A training step needs the logits of the batch's candidates and of one sample of labels that
all rows of the batch share; nothing of the size rows × labels is ever made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, embedding_bag

from propml.neural.judgement import candidate_sigmoid
from propml.neural.rows import keep_mask
from propml.progress import progress_bar

# Logits that are computed at once where all labels are scored: 256 MB.
BLOCK_LOGITS = 2**26


class Cells:
    """The stored cells of a sparse matrix on a device, for any rows at once."""

    def __init__(self, matrix: sp.csr_array, device: torch.device, dtype: torch.dtype = torch.float32) -> None:
        self.shape = matrix.shape
        self.starts = torch.as_tensor(matrix.indptr, dtype=torch.long, device=device)
        self.columns = torch.as_tensor(matrix.indices, device=device)
        self.values = torch.as_tensor(matrix.data, dtype=dtype, device=device)

    def of(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Where the cells of each row begin among those of all ``rows``, ``(B,)``; their columns and their values."""
        starts = self.starts[rows]
        lengths = self.starts[rows + 1] - starts
        offsets = lengths.cumsum(0) - lengths
        shift = (starts - offsets).repeat_interleave(lengths)
        at = torch.arange(len(shift), device=rows.device) + shift
        return offsets, self.columns[at].long(), self.values[at]


def row_of_cells(offsets: Tensor, n_cells: int) -> Tensor:
    """The row, 0 to B - 1, that each cell of :meth:`Cells.of` belongs to."""
    ends = torch.cat([offsets[1:], offsets.new_tensor([n_cells])])
    return torch.arange(len(offsets), device=offsets.device).repeat_interleave(ends - offsets)


class RowTable:
    """Row-wise Adagrad: a row that was used moves by its gradient over the root of its summed mean squares.

    One number of state per row instead of one or two per weight, and rows that no batch touched cost nothing.
    """

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        self.squares = torch.zeros(len(weight), device=weight.device)
        self.used: list[tuple[Tensor, Tensor]] = []

    def take(self, ids: Tensor) -> Tensor:
        """These rows, each named once, as a leaf whose gradient :meth:`step` applies."""
        rows = self.weight[ids].requires_grad_()
        self.used.append((ids, rows))
        return rows

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move all rows that were taken."""
        for ids, rows in self.used:
            assert rows.grad is not None
            squares = self.squares[ids] + rows.grad.square().flatten(1).mean(dim=1)
            self.squares[ids] = squares
            self.weight[ids] = rows.detach() - rate * rows.grad / (squares.sqrt() + 1e-10).unsqueeze(1)
        self.used.clear()


class SparseInput:
    """Scaled sparse features; a batch uses the rows of the first layer that its columns name."""

    def __init__(self, X: sp.csr_array, device: torch.device) -> None:
        self.cells = Cells(X, device)

    def product(self, rows: Tensor, first: Tensor | RowTable) -> Tensor:
        """``(B, H)``: rows of the features times the first layer."""
        offsets, columns, values = self.cells.of(rows)
        if isinstance(first, RowTable):
            ids, columns = columns.unique(return_inverse=True)
            first = first.take(ids)
        return embedding_bag(columns, first, offsets, mode="sum", per_sample_weights=values.to(first.dtype))


class DenseInput:
    """Scaled dense features."""

    def __init__(self, X: np.ndarray, device: torch.device) -> None:
        self.X = torch.as_tensor(X, device=device)

    def product(self, rows: Tensor, first: Tensor) -> Tensor:
        return self.X[rows].to(first.dtype) @ first


class ManyLabelNetwork(nn.Module):
    """Hidden layers over the features, and one row of weights per label.

    Parameters
    ----------
    n_features, n_labels : int
    hidden : sequence of int
        Widths of the hidden layers, at least one.
    generator : torch.Generator, optional
        Where the initial weights come from; without it they are 0. The output table starts at 0 in any case, so that
        a label which never occurs keeps its bias alone.
    """

    def __init__(
        self, n_features: int, n_labels: int, hidden: Sequence[int], generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        widths = [n_features, *hidden]
        shapes = list(zip(widths, hidden, strict=False))
        self.weights = nn.ParameterList(_drawn(shape, generator) for shape in shapes)
        self.biases = nn.ParameterList(torch.zeros(width) for width in hidden)
        self.table = nn.Parameter(torch.zeros(n_labels, widths[-1]))
        self.bias = nn.Parameter(torch.zeros(n_labels))

    @classmethod
    def of(cls, state: dict[str, Any]) -> Self:
        """A network of the given arrays: ``"weights"``, ``"biases"``, ``"table"`` and ``"bias"``."""
        arrays = {f"{name}.{i}": array for name in ("weights", "biases") for i, array in enumerate(state[name])}
        arrays |= {name: state[name] for name in ("table", "bias")}
        with torch.device("meta"):
            network = cls(len(state["weights"][0]), len(state["bias"]), [len(bias) for bias in state["biases"]])
        network.load_state_dict({name: torch.as_tensor(array) for name, array in arrays.items()}, assign=True)
        return network

    def scale_first_layer(self, square: float) -> None:
        """Make the first layer as loud for rows of this mean square as it is for columns of variance 1."""
        self.weights[0].data.mul_(math.sqrt(len(self.weights[0]) / max(square, 1e-12)))

    def hidden(self, product: Tensor, dropout: float = 0.0, generator: torch.Generator | None = None) -> Tensor:
        """``(B, H)`` from the first layer's product with the features; dropout where a generator is given."""
        for layer, bias in enumerate(self.biases):
            product = torch.relu((product if layer == 0 else product @ self.weights[layer]) + bias)
            if dropout and generator is not None:
                product = product * keep_mask(tuple(product.shape), dropout, generator)
        return product

    @torch.no_grad()
    def logit_blocks(self, features: SparseInput | DenseInput, rows: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """The logits of all labels, for as many rows at once as memory allows."""
        step = max(1, BLOCK_LOGITS // len(self.table))
        for start in range(0, len(rows), step):
            part = slice(start, min(start + step, len(rows)))
            h = self.hidden(features.product(rows[part], self.weights[0]))
            yield part, torch.addmm(self.bias, h, self.table.T)


class LabelSample:
    """Which labels a step scores beside the candidates: the most frequent ones always, of the others a random part.

    The others are drawn without replacement: shuffled and used up in order, so that none is forgotten. Each of them is
    in a sample with the same probability, and stands for ``1 / probability`` labels.
    """

    def __init__(self, counts: np.ndarray, size: int, frequent: float, device: torch.device, seed: int) -> None:
        n_always = len(counts) if size >= len(counts) else round(size * frequent)
        order = torch.as_tensor(np.argsort(-counts, kind="stable"), device=device)
        self.always, self.others = order[:n_always], order[n_always:]
        self.n_drawn = max(min(size, len(counts)) - n_always, min(1, len(self.others)))
        self.generator = torch.Generator().manual_seed(seed)
        self.place = len(self.others)
        weight = torch.ones(n_always + self.n_drawn, device=device)
        weight[n_always:] = len(self.others) / max(self.n_drawn, 1)
        self.weight = weight

    def draw(self) -> Tensor:
        """Labels, each at most once; :attr:`weight` says how many each of them stands for."""
        if self.place + self.n_drawn > len(self.others):
            order = torch.randperm(len(self.others), generator=self.generator)
            self.others, self.place = self.others[order.to(self.others.device)], 0
        drawn = self.others[self.place : self.place + self.n_drawn]
        self.place += self.n_drawn
        return torch.cat([self.always, drawn])


def batch_logits(
    h: Tensor, cells: tuple[Tensor, Tensor, Tensor], sample: Tensor, table: RowTable, bias: RowTable
) -> dict[str, Tensor]:
    """The logits that a sampled loss takes, with their masks, from the hidden layer of a batch ``(B, H)``.

    ``cells`` are what :meth:`Cells.of` says of the candidates: 1 where a label is one, -1 where it is unknown.
    """
    offsets, labels, states = cells
    ids, place = torch.cat([labels, sample]).unique(return_inverse=True)
    rows, levels = table.take(ids), bias.take(ids)
    inside, outside = place[: len(labels)], place[len(labels) :]
    row = row_of_cells(offsets, len(labels))
    own = (h[row] * embedding(inside, rows)).sum(dim=1) + levels[inside, 0]
    within = torch.arange(len(labels), device=h.device) - offsets[row]
    width = int(within.max()) + 1 if len(labels) else 1
    logits = h.new_zeros(len(h), width).index_put((row, within), own)
    mask = torch.zeros(logits.shape, dtype=torch.bool, device=h.device)
    mask[row, within] = states > 0
    # Stored labels are candidates or unknown: where the sample holds one of them, it is not excluded in this row.
    position = torch.full((len(ids),), -1, device=h.device)
    position[outside] = torch.arange(len(sample), device=h.device)
    stored = position[inside]
    excluded = torch.ones(len(h), len(sample), dtype=torch.bool, device=h.device)
    excluded[row[stored >= 0], stored[stored >= 0]] = False
    return {
        "candidate_logits": logits,
        "excluded_logits": h @ rows[outside].T + levels[outside, 0],
        "candidate_mask": mask,
        "excluded_mask": excluded,
    }


def held_out_ndcg(
    network: ManyLabelNetwork, features: SparseInput | DenseInput, candidates: Cells, rows: Tensor, k: int
) -> float:
    """nDCG@k of the candidates of held-out rows; unknown labels are passed over."""
    n_labels, gains = candidates.shape[1], []
    discount = 1 / torch.arange(2, k + 2, device=rows.device).log2()
    for part, logits in network.logit_blocks(features, rows):
        offsets, labels, states = candidates.of(rows[part])
        row, known = row_of_cells(offsets, len(labels)), states > 0
        logits[row[~known], labels[~known]] = -torch.inf
        top = logits.topk(k, dim=1).indices
        keys = top + n_labels * torch.arange(len(top), device=rows.device).unsqueeze(1)
        hits = torch.isin(keys, (row * n_labels + labels)[known])
        sizes = torch.bincount(row[known], minlength=len(top)).clamp(max=k)
        ideal = torch.cat([discount.new_zeros(1), discount.cumsum(0)])[sizes]
        gains.append(((hits * discount).sum(dim=1) / ideal)[sizes > 0])
    found = torch.cat(gains)
    return float(found.mean()) if len(found) else math.nan


def _drawn(shape: tuple[int, int], generator: torch.Generator | None) -> Tensor:
    """A layer's weights ``(in, out)``, uniform in ±1/√in as ``torch.nn.Linear``."""
    bound = 1 / math.sqrt(max(shape[0], 1))
    return torch.zeros(shape) if generator is None else torch.empty(shape).uniform_(-bound, bound, generator=generator)


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

    For each epoch it returns the mean loss and, on held-out rows, ``"ndcg"`` of the candidates.
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
    """Slope and offset of the sigmoid that predicts held-out candidates best, from them and a sample of the others.

    Of n entries of a kind one more counts as the other kind (Platt's targets): few rows promise nothing for sure.
    """
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
    z, y, w = (np.concatenate(parts) for parts in (scores, states, weights))
    doubt = 1 / (np.bincount(y, minlength=2)[y] + 2)
    both = np.tile(z, 2)[:, None], np.concatenate([y, 1 - y])[:, None]
    return candidate_sigmoid(*both, np.concatenate([(1 - doubt) * w, doubt * w]))

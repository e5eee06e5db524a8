"""Candidate labels from a vocabulary of up to a million: a network that never scores all labels in training.

    L = −log Σ_{i∈S} p_i − λ Σ_{j∈A∖S} w_j log(1 − p_j),    w_j = 1 / P(j ∈ A)

is an unbiased estimate of ProPML's loss (:func:`propml.losses.sampled_propml_loss`) from a sample A of the labels that
all rows of a batch share: the most frequent labels, always, and a random part of the others.

Struski, Pardyl, Tabor, Zieliński: *ProPML: Probability Partial Multi-label Learning*, DSAA 2023.
Row-wise Adagrad: Duchi, Hazan, Singer, JMLR 2011, with one mean square per row of a table.

Deviations from the paper, and from :class:`~propml.methods.ProPMLClassifier`:

* One network and one held-out part of the rows: no folds, no ensemble, no quantile bins of numeric columns.
* Biases start at the labels' log odds and output weights at 0: a label that never occurs stays where it is.
* λ is a third of the one at which the two terms pull alike *there*, 1 / mean |S|; it does not fall with the number of
  labels. (:func:`propml.neural.criteria.balanced_lam` compares them at p = 1/2, where no label of thousands ever is.)
* Probabilities are those of being a *candidate*: slope and offset of the sigmoid are fitted to held-out candidates.
"""

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import expit
from sklearn.utils import check_random_state

from propml.devices import choose_device
from propml.losses.sampled import sampled_bce_loss, sampled_propml_loss
from propml.methods.base import CandidateClassifier, Features, choice_of, number_within, positive_int
from propml.methods.propml_arguments import FEWEST_ROWS, batch_size_of, widths_of
from propml.neural.encoding import FeatureScaler
from propml.neural.many_labels import (
    Cells,
    DenseInput,
    ManyLabelNetwork,
    ManyRecipe,
    SparseInput,
    held_out_sigmoid,
    label_log_odds,
    train_network,
)
from propml.neural.saving import ENSEMBLE, scaler_from_state, scaler_state
from propml.schema import Array
from propml.targets import Candidates

LOSSES = {"propml": sampled_propml_loss, "bce": sampled_bce_loss}
# Scores of all labels are given out up to so many: 800 MB in double precision.
MOST_SCORES = 10**8
# Held-out rows at most: all labels are scored for them after every epoch.
MOST_HELD_OUT = 4096
# Training steps at most, as far as that is 20 to 250 epochs; and steps without progress, as far as that is 3 or more.
STEPS, PATIENT_STEPS = 2000, 100


@dataclass(eq=False, repr=False)
class ManyLabelClassifier(CandidateClassifier):
    """A network for thousands to a million labels, with memory for rows × candidates only.

    Parameters
    ----------
    loss : {"propml", "bce"}
    lam : "auto" or float
        Weight of the excluded labels; "auto" is 1 / (3 · mean number of candidates) for ProPML and 1 for BCE.
    hidden : tuple of int
        Widths of the hidden layers, at least one. The output table has ``n_labels × hidden[-1]`` weights.
    dropout : float
    n_sampled : int
        Labels that a training step scores beside the candidates; from as many labels on, it scores all of them.
    frequent : float
        The share of these that is always there, the most frequent labels; the others are drawn uniformly.
    held_out : float
        The share of rows (4096 at most) that is held out: the epoch with the best nDCG@k of their candidates is kept.
        0 trains on all rows for all epochs.
    k : int
    epochs, patience, batch_size : "auto" or int
        "auto": about 2000 steps at most, but 20 to 250 epochs; stop after 100 steps, and 3 epochs, without progress;
        batches of 128 (more for many rows).
    learning_rate, table_rate : float
        Of Adam for dense layers, and of row-wise Adagrad for the output table and a sparse first layer.
    device : str
        "auto" takes a GPU where there is one.
    random_state : int, RandomState or None
    verbose : bool
        Show a progress bar. Without it, a fit that will take longer than ten seconds shows one where a person watches.

    Attributes
    ----------
    lam_ : float
    history_ : list of dict
        For each epoch the mean ``"loss"`` and, where rows are held out, the ``"ndcg"`` of their candidates.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = sp.random_array((200, 50), density=0.1, rng=rng, format="csr")
    >>> candidates = sp.random_array((200, 5000), density=0.001, rng=rng, format="csr") > 0
    >>> model = ManyLabelClassifier(hidden=(16,), epochs=2, random_state=0).fit(X, candidates)
    >>> labels, probabilities = model.predict_top(X, k=3)
    >>> labels.shape
    (200, 3)
    """

    loss: Literal["propml", "bce"] = "propml"
    _: KW_ONLY
    lam: float | Literal["auto"] = "auto"
    hidden: tuple[int, ...] = (256,)
    dropout: float = 0.2
    n_sampled: int = 1000
    frequent: float = 0.5
    held_out: float = 0.1
    k: int = 5
    epochs: int | Literal["auto"] = "auto"
    patience: int | Literal["auto"] = "auto"
    batch_size: int | Literal["auto"] = "auto"
    learning_rate: float = 4e-3
    table_rate: float = 0.02
    device: str = "auto"
    random_state: Any = None
    verbose: bool = False

    _takes_unknown = True
    _takes_missing = True
    _learned: ClassVar = {
        "network_": {
            "scaler": ENSEMBLE["scaler"],
            "weights": [Array("f", "in", "out")],
            "biases": [Array("f", "out")],
            "table": Array("f", "labels", "width"),
            "bias": Array("f", "labels"),
            "slope": float,
            "offset": float,
        },
        "lam_": float,
        "history_": [{"loss": float, "ndcg?": float}],
    }

    def _fit(self, X: Features, candidates: Candidates) -> None:
        device, states = choose_device(self.device), candidates.states
        seed = int(check_random_state(self.random_state).randint(2**31 - 4))
        order = np.random.default_rng(seed).permutation(len(candidates))
        share = number_within("held_out", self.held_out, 0, 1)
        n_held = 0 if len(order) < FEWEST_ROWS else min(math.ceil(share * len(order)), MOST_HELD_OUT, len(order) - 1)
        held, train = order[:n_held], order[n_held:]
        recipe = self._recipe(candidates, len(train))
        widths = widths_of(self.hidden)
        if not widths:
            raise ValueError("hidden is (); give the width of at least one layer, such as (256,)")
        scaler = FeatureScaler(X.shape[1]).fit(X)
        scaled = scaler.transform(X)
        start = torch.Generator().manual_seed(seed)
        network = ManyLabelNetwork(scaler.n_outputs, len(self.labels_), widths, start)
        squares = scaled.multiply(scaled) if sp.issparse(scaled) else scaled**2
        network.scale_first_layer(float(squares.sum()) / len(order))
        network.bias.data.copy_(torch.from_numpy(label_log_odds(states[train])))
        network.to(device)
        features, cells = _on_device(scaled, device), Cells(states, device, torch.int8)
        rows, held_rows = (torch.as_tensor(part, device=device) for part in (train, held))
        show = True if self.verbose else None
        self.history_ = train_network(network, features, cells, rows, held_rows, recipe, seed, show)
        slope, offset = held_out_sigmoid(network, features, cells, held_rows, recipe, seed)
        self.lam_ = recipe.lam
        network.requires_grad_(False).cpu()
        self.network_: dict[str, Any] = {
            "scaler": scaler_state(scaler),
            "weights": [weight.numpy() for weight in network.weights],
            "biases": [bias.numpy() for bias in network.biases],
            "table": network.table.numpy(),
            "bias": network.bias.numpy(),
            "slope": slope,
            "offset": offset,
        }

    def _recipe(self, candidates: Candidates, n_train: int) -> ManyRecipe:
        """What the arguments mean for so many rows."""
        loss = LOSSES[choice_of("loss", self.loss, LOSSES)]
        if self.lam == "auto":
            sizes = candidates.sizes()
            lam = 1 / (3 * float(sizes[sizes > 0].mean())) if self.loss == "propml" else 1.0
        else:
            lam = number_within("lam", self.lam, 0, np.inf, 'a number of at least 0, or "auto"')
        batch_size = batch_size_of(self.batch_size, n_train)
        steps = -(-n_train // batch_size)
        return ManyRecipe(
            loss,
            lam,
            positive_int("n_sampled", self.n_sampled),
            number_within("frequent", self.frequent, 0, 1),
            number_within("dropout", self.dropout, 0, 1),
            int(np.clip(STEPS // steps, 20, 250)) if self.epochs == "auto" else positive_int("epochs", self.epochs),
            max(3, PATIENT_STEPS // steps) if self.patience == "auto" else positive_int("patience", self.patience),
            batch_size,
            number_within("learning_rate", self.learning_rate, 1e-12, np.inf),
            number_within("table_rate", self.table_rate, 1e-12, np.inf),
            min(positive_int("k", self.k), candidates.shape[1]),
        )

    def predict_top(self, X: Any, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """The ``k`` most probable labels of each row; rows are scored in blocks that fit into memory.

        Returns
        -------
        labels : ndarray of int64, shape (n_samples, k)
            Positions in ``labels_``, the most probable first; labels of equal score come in any order.
        probabilities : ndarray of float32, shape (n_samples, k)
            That each of them is a candidate.
        """
        features = self._checked(X)
        if positive_int("k", k) > len(self.labels_):
            raise ValueError(f"k is {k} and there are {len(self.labels_)} labels; choose k from 1 to that")
        labels = np.empty((features.shape[0], k), dtype=np.int64)
        probabilities = np.empty((features.shape[0], k), dtype=np.float32)
        for part, logits in self._logit_blocks(features, choose_device(self.device), torch.float32):
            top = logits.topk(k, dim=1)
            labels[part], probabilities[part] = top.indices.cpu().numpy(), top.values.sigmoid().cpu().numpy()
        return labels, probabilities

    def _scores(self, X: Features) -> np.ndarray:
        if X.shape[0] * len(self.labels_) > MOST_SCORES:
            raise ValueError(
                f"the scores of {len(self.labels_)} labels for {X.shape[0]} rows are more than the {MOST_SCORES:,} "
                f"that are given out at once; use predict_top(X, k), or fewer rows"
            )
        return self._all_logits(X, choose_device(self.device))

    def _all_logits(self, X: Features, device: torch.device) -> np.ndarray:
        # In double precision: then a row's scores do not depend on the rows that are scored with it.
        blocks = self._logit_blocks(X, device, torch.float64)
        return np.concatenate([logits.cpu().numpy() for _, logits in blocks])

    def _logit_blocks(
        self, X: Features, device: torch.device, dtype: torch.dtype
    ) -> Iterator[tuple[slice, torch.Tensor]]:
        """Logits of P(candidate) for all labels, block by block."""
        state = self.network_
        scaler = scaler_from_state(state["scaler"])
        if sp.issparse(X) and (not scaler.keeps_zeros or len(scaler.missing)):
            X = sp.csr_array(X).toarray()
        features = _on_device(scaler.transform(X), device)
        network = ManyLabelNetwork.of(state).to(device, dtype)
        for part, logits in network.logit_blocks(features, torch.arange(X.shape[0], device=device)):
            yield part, logits.mul_(state["slope"]).add_(state["offset"])

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        return expit(scores)

    def _try_out(self) -> np.ndarray:
        # On the CPU: the device of training need not be there where the model is loaded.
        return self._all_logits(np.zeros((1, self.n_features_in_)), torch.device("cpu"))


def _on_device(scaled: Any, device: torch.device) -> SparseInput | DenseInput:
    return SparseInput(scaled, device) if sp.issparse(scaled) else DenseInput(scaled, device)

"""ProPML for tables: networks that learn from candidate labels, with everything chosen on candidates.

Struski, Pardyl, Tabor, Zieliński: *ProPML: Probability Partial Multi-label Learning*, DSAA 2023.

    L = −log Σ_{i∈S} p_i − λ Σ_{j∉S} log(1 − p_j)

``loss="propml"`` is the paper's loss. The default, ``loss="auto"``, averages networks trained with it, networks that
rank candidates above excluded labels (:func:`propml.losses.rank_loss`), a random forest and ridge regression, with
ensemble weights chosen on held-out candidates: on data left out this beats each of its parts (docs/classifier.md).

Deviations from the paper, whose tabular network is described in one line (two hidden layers, 500 epochs, Adam):

* Numeric columns are encoded by quantile bins (:mod:`propml.neural.encoding`).
* λ is three times the one that balances the two terms (it falls with the number of labels), or chosen around it on
  held-out *candidates*; the paper chose it on test labels. Every fold's networks train at once as one stacked model.
* Dropout 0.5, a running mean of the weights, and the epoch with the best held-out candidates instead of 500 epochs.
* The networks of all folds are averaged, and each label's noise rate is estimated and taken away
  (:mod:`propml.neural.judgement`).
* The threshold is chosen on held-out candidates; it is not p = 0.5.

For the paper's network: ``ProPMLClassifier("propml", lam=0.1, bins=0, dropout=0.0, ema=0.0, cv=None, epochs=500,
learning_rate=1e-3)``.
"""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from scipy.special import expit
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from propml.devices import choose_device
from propml.folds import make_folds
from propml.methods.base import CandidateClassifier, Features, check_some, choice_of, number_within, positive_int
from propml.methods.linear_algebra import dense
from propml.methods.propml_arguments import EFFORTS, Pairs, epochs_of_steps, folds_of, network_choices
from propml.neural.criteria import Criterion, get_criterion
from propml.neural.ensemble import Ensemble, Networks
from propml.neural.fitting import Fitted, Plan, fit_ensemble, make_seeds
from propml.neural.saving import ENSEMBLE, ensemble_from_state, ensemble_state, write_onnx
from propml.schema import Array
from propml.targets import Candidates

# Above so many labels in all rows a forest is left out: its leaves would take more memory than the networks.
MOST_FOR_A_FOREST = 300_000
# Training steps between two looks at held-out rows.
JUDGE_STEPS = 12
# What a threshold can be good for.
CUTS = ("auto", "f1", "hamming")


@dataclass(eq=False, repr=False)
class ProPMLClassifier(CandidateClassifier):
    """ProPML networks, ranking networks, a forest and ridge regression, averaged: better than any of them alone.

    λ, epochs, noise rates and threshold are chosen without a clean label. With a named ``loss`` it is one network.

    Parameters
    ----------
    loss : {"auto", "propml", "power", "bce", "asl", "propall", "rank"} or callable
        "auto" averages networks trained with the paper's loss and with the ranking loss, a forest and ridge
        regression. A callable gets ``(logits, candidates, lam=…)`` and returns one value per example.
    lam : "auto" or float
        Weight of the excluded labels. "auto" takes three times the one that balances the two terms; with a named loss
        it is chosen around the balanced one by cross-validation on candidates.
    order : float
        Order of the power mean, for ``loss="power"``.
    hidden : tuple of int
        Widths of the hidden layers, ``()`` for a linear model.
    bins : int
        Quantile bins of each numeric column (piecewise-linear encoding); 0 for none.
    dropout, input_dropout : float
    forest : "auto" or bool
        Whether a random forest is averaged in. "auto" means with ``loss="auto"`` and folds, up to 300 000 labels in
        all rows.
    noise : "auto" or bool
        Whether each label's noise rate is estimated and taken away; "auto" means with ``loss="auto"`` and folds. It
        assumes that candidates are complete: an excluded label is surely false.
    cv : int, iterable of (train, held-out) index pairs, or None
        Folds. Each network is judged on the rows that it did not see, and the networks of all folds are averaged.
        ``None`` trains on all rows for all epochs, with a given ``lam`` and a threshold of 0.5.
    criterion : {"average_precision", "bce", "one_error"} or callable
        How held-out candidates are judged; see :mod:`propml.neural.criteria`.
    effort : {"fast", "auto", "best"}
        How much time to take: "fast" trains for at most 100 steps, with half the trees, grown to single rows; "best"
        for up to 2000, with four networks per fold, three λ and four times the trees.
    n_models : "auto" or int
        Networks of different seeds per fold, averaged.
    epochs, batch_size : "auto" or int
        "auto": about 1000 steps at most (``effort="auto"``), in batches of 128 (more for many rows).
    early_stopping : bool
        Stop when no network has improved on its held-out rows for 20 steps (``effort="auto"``), or four epochs.
    learning_rate, weight_decay, ema : float
        Adam, decoupled decay, and the decay of the running mean of the weights (0: none).
    threshold : {"auto", "f1", "hamming"} or float
        What the cut is good for: F1, the Hamming loss, or both ("auto": between them, the nearer to F1 the more labels
        a row has). A number is a probability to cut at.
    device : str
        "auto" takes a GPU where there is one.
    bfloat16 : bool
        Multiply matrices in bfloat16.
    warm_start : bool
        The next ``fit`` goes on from the weights, λ and scaling of the last one.
    random_state : int, RandomState or None
    verbose : bool
        Show a progress bar. Without it, a fit that will take longer than ten seconds shows one where a person watches.

    Attributes
    ----------
    lam_ : dict
        The λ of each kind of network.
    shares_ : dict
        The weight of each member of the ensemble, chosen on held-out candidates; one of weight 0 is left out.
    noise_rates_ : ndarray, shape (n_labels,)
        The noise rate that was taken away from each label's probability.
    threshold_ : float
        The chosen cut, on the logit of P(true).
    history_ : list of dict
        For each kind of network the settings that were tried, and after every epoch the criterion on held-out
        candidates and the training loss of every single network, ``(epochs, folds, seeds, settings)``; NaN where it
        was not measured.

    Examples
    --------
    >>> from propml.datasets import digits_mosaic
    >>> data = digits_mosaic(200)
    >>> model = ProPMLClassifier(hidden=(64,), epochs=30, random_state=0).fit(data.X, data.candidates)
    >>> model.predict_proba(data.X).shape
    (200, 10)
    """

    loss: str | Callable[..., torch.Tensor] = "auto"
    _: KW_ONLY
    lam: float | Literal["auto"] = "auto"
    order: float = 0.5
    hidden: tuple[int, ...] = (256, 256)
    bins: int = 4
    dropout: float = 0.5
    input_dropout: float = 0.0
    forest: bool | Literal["auto"] = "auto"
    noise: bool | Literal["auto"] = "auto"
    cv: int | Iterable[tuple[np.ndarray, np.ndarray]] | None = 5
    criterion: str | Criterion = "average_precision"
    effort: Literal["fast", "auto", "best"] = "auto"
    n_models: int | Literal["auto"] = "auto"
    epochs: int | Literal["auto"] = "auto"
    batch_size: int | Literal["auto"] = "auto"
    early_stopping: bool = True
    learning_rate: float = 4e-3
    weight_decay: float = 0.0
    ema: float = 0.98
    threshold: float | Literal["auto", "f1", "hamming"] = "auto"
    device: str = "auto"
    bfloat16: bool = False
    warm_start: bool = False
    random_state: Any = None
    verbose: bool = False

    _takes_unknown = True
    _takes_missing = True

    _learned: ClassVar = {
        "ensemble_": ENSEMBLE,
        "lam_": {str: float},
        "shares_": {str: float},
        "noise_rates_": Array("f", "labels", least=0, most=1),
        "threshold_": float,
        "history_": [
            {
                "settings": [{str: object}],
                "criterion": Array("f", "epochs", "folds", "models", "settings", finite=False),
                "loss": Array("f", "epochs", "folds", "models", "settings", finite=False),
                "best_epoch": Array("iu", "folds", "models", "settings"),
            }
        ],
    }

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from features and candidate labels.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n_samples, n_features)
            Raw features; they are scaled here. Sparse features stay sparse.
        y : candidate labels
            Anything that :func:`propml.targets.as_candidates` takes; -1 marks unknown entries.
        sample_weight : array-like, shape (n_samples,), optional
            How much each row counts; rows with weight 0 are ignored.
        """
        self._fitted(X, y, sample_weight)
        return self

    def fit_held_out_logits(self, X: Any, y: Any, sample_weight: Any = None) -> np.ndarray:
        """Fit, and say what models that never saw a row think of it.

        Returns
        -------
        ndarray, shape (n_samples, n_labels)
            Logits on the scale of :meth:`decision_function`, each row from the networks of the fold that held it out;
            NaN for rows that no fold held out.
        """
        return self._fitted(X, y, sample_weight).held

    def _fitted(self, X: Any, y: Any, sample_weight: Any) -> Fitted:
        features, candidates = self._validated(X, y)
        if self.threshold not in CUTS:
            told = 'a probability between 0 and 1, or one of "auto", "f1", "hamming"'
            self.thresholds_[:] = number_within("threshold", self.threshold, np.nextafter(0, 1), 1, told)
        if sample_weight is None:
            fitted = self._fit_ensemble(features, candidates, folds_of(self.cv, len(candidates)))
        else:
            weight = _check_sample_weight(sample_weight, features, ensure_non_negative=True)
            fitted = self._fit_weighted(features, candidates, weight)
        self.ensemble_ = ensemble_state(fitted.ensemble)
        # In double precision: then a row's scores do not depend on the rows that are scored with it.
        self._module = ensemble_from_state(self.ensemble_).double()
        networks = {m.name: m.module for m in fitted.members if isinstance(m.module, Networks)}
        self._networks = networks if self.warm_start else {}
        self.lam_ = {member.name: member.setting["lam"] for member in fitted.members if "lam" in member.setting}
        self.shares_ = fitted.weights
        self.noise_rates_ = self.ensemble_["rate"]
        self.threshold_ = fitted.ensemble.threshold
        self.history_: list[dict[str, Any]] = [
            {"settings": list(fleet.settings)}
            | {name: getattr(fleet, name) for name in ("criterion", "loss", "best_epoch")}
            for fleet in fitted.fleets
        ]
        return fitted

    def _fit_weighted(self, X: Features, candidates: Candidates, weight: np.ndarray) -> Fitted:
        """Rows with weight 0 are ignored: nothing is learned, chosen or scaled by them."""
        kept = np.flatnonzero(weight)
        if not len(kept):
            raise ValueError("sample_weight is 0 everywhere; give at least one non-zero weight")
        check_some(candidates[kept])
        own = weight[kept] * (len(kept) / weight.sum())
        cv = folds_of(self.cv, len(candidates), kept)
        fitted = self._fit_ensemble(X[kept], candidates[kept], cv, own)
        held = np.full(candidates.shape, np.nan, dtype=fitted.held.dtype)
        held[kept] = fitted.held
        return replace(fitted, held=held)

    def _fit_ensemble(
        self, X: Features, candidates: Candidates, cv: int | Pairs | None, weight: np.ndarray | None = None
    ) -> Fitted:
        """The ensemble with its held-out opinions; what :meth:`fit` keeps a part of."""
        given = self.random_state
        seed = int(given if isinstance(given, int | np.integer) else check_random_state(given).randint(2**31)) % 2**31
        n, effort = len(candidates), EFFORTS[choice_of("effort", self.effort, EFFORTS)]
        together = self.loss == "auto" and self.cv is not None
        for name, flag in (("forest", self.forest), ("noise", self.noise)):
            if flag not in (True, False, "auto"):
                raise ValueError(f'{name} is {flag!r}; give True, False, or "auto"')
        forest, noise = self.forest, self.noise
        if forest == "auto":
            forest = together and cv is not None and n * candidates.shape[1] <= MOST_FOR_A_FOREST
        if noise == "auto":
            # The classes of a vector are no candidates among which noise could be.
            noise = together and not self._single_label
        networks = getattr(self, "_networks", {}) if self.warm_start else {}
        plan = Plan(
            network_choices(self, candidates, cv, networks),
            get_criterion(self.criterion),
            make_seeds(seed, effort.n_models if self.n_models == "auto" else positive_int("n_models", self.n_models)),
            effort.trees if forest else None,
            together and cv is not None,
            positive_int("bins", self.bins) if self.bins != 0 else 0,
            bool(noise),
            self.threshold if self.threshold in CUTS else "auto",
            choose_device(self.device),
            networks,
            {
                "patience": max(4, round(epochs_of_steps(self, n, effort.patience))) if self.early_stopping else None,
                "judge_every": max(1, round(epochs_of_steps(self, n, JUDGE_STEPS))),
                "bfloat16": self.bfloat16,
                "show": True if self.verbose else None,
            },
        )
        return fit_ensemble(X, candidates.to_matrix(), make_folds(n, cv, seed), plan, weight)

    def _scores(self, X: Features) -> np.ndarray:
        device = choose_device(self.device)
        module = self._module.to(device)
        size = max(1, min(4096, 2**24 // max(module.values_per_row(), 1)))
        parts = []
        with torch.no_grad():
            for rows in gen_batches(X.shape[0], size):
                # Torch warns of what cannot be written to, though nothing is written.
                block = np.require(dense(X[rows]), requirements="W")
                parts.append(module(torch.as_tensor(block, device=device)).cpu().numpy())
        self._module.to("cpu")
        return np.concatenate(parts)

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        return expit(scores)

    # -- elsewhere -----------------------------------------------------------------------------------------------

    def to_torch(self) -> Ensemble:
        """A plain ``torch.nn.Module``: raw float32 features ``(n, D)`` → logits, positive for predicted labels."""
        check_is_fitted(self, "labels_")
        return ensemble_from_state(self.ensemble_)

    def to_onnx(self, path: str | Path) -> None:
        """Write the model as ONNX: input ``X`` (any number of rows), outputs ``logits`` and ``probabilities``."""
        write_onnx(self.to_torch(), self.n_features_in_, path)

    def _saved_params(self) -> dict[str, Any]:
        params = super()._saved_params()
        for name in ("loss", "criterion"):
            if callable(params[name]):
                raise ValueError(
                    f"{name} is a function, which cannot be saved without pickle; save the model with to_torch() and "
                    f"torch.save, or use a named {name}"
                )
        return params

    def _try_out(self) -> np.ndarray:
        # On the CPU: the device of training need not be there where the model is loaded.
        self._module = ensemble_from_state(self.ensemble_).double()
        return self._module(torch.zeros(1, self.n_features_in_, dtype=torch.float64)).numpy()

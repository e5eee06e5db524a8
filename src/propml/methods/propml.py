"""ProPML for tables: networks that learn from candidate labels, with everything chosen on candidates.

Struski, Pardyl, Tabor, Zieliński: *ProPML: Probability Partial Multi-label Learning*, DSAA 2023.

    L = −log Σ_{i∈S} p_i − λ Σ_{j∉S} log(1 − p_j)

``loss="propml"`` is the paper's loss. The default, ``loss="power"``, is the family between BCE and ProPML: candidates
enter by the power mean of their probabilities, of order 0 (BCE) to 1 (ProPML); see :func:`propml.losses.power_loss`.

Deviations from the paper, whose tabular network is described in one line (two hidden layers, 500 epochs, Adam):

* λ is chosen on held-out *candidates*, on a grid around the λ that balances the two terms (it falls with the number of
  labels); the paper chose it on test labels. Every fold's networks train at once as one stacked model.
* Dropout 0.5, a running mean of the weights, and the epoch with the best held-out candidates instead of 500 epochs.
* The networks of all folds are averaged. By default two kinds of networks (deep; wide with input dropout), each with
  the power mean of order 0.5 and with a ranking loss, are averaged with a linear partner, with shares found on held-out
  candidates; or the linear partner is heard alone, where no network beats it there.
* Where rows are many for each feature, first models say how plausible each candidate is and the networks that are
  kept learn from that; see :mod:`propml.neural.refinement`.
* The threshold lies half-way between best candidates and best excluded labels, not at p = 0.5.

For the paper's network: ``ProPMLClassifier("propml", lam=0.1, hidden=(256, 256), dropout=0.0, ema=0.0, cv=None,
epochs=500)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import expit
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from propml.losses import rank_loss, refined_loss
from propml.losses.named import get_loss
from propml.methods.base import CandidateClassifier, Features, check_some
from propml.methods.propml_arguments import (
    KINDS,
    ORDER,
    Kind,
    Pairs,
    epochs_of,
    flag_or_auto,
    folds_of,
    kind_of,
    number_or_auto,
    positive_int,
    recipe_of,
)
from propml.neural.balance import SPREAD, lam_grid
from propml.neural.criteria import Criterion, get_criterion
from propml.neural.ensemble import Ensemble, Networks
from propml.neural.experts import Choice
from propml.neural.fitting import Fitted, Plan, fit_ensemble, make_folds, make_seeds
from propml.neural.saving import ENSEMBLE, ensemble_from_state, ensemble_state
from propml.schema import Array, check_schema
from propml.targets import Candidates
from propml.this_machine import choose_device

# With so many rows for each feature no input needs dropping, and first opinions are worth learning from.
ROWS_PER_FEATURE = 10
# Rows (of which first models see 60 %) that make an opinion worth learning from.
FEWEST_ROWS_TO_REFINE = 500
# Above so many labels in all rows nothing is refined: every fold has targets of its own, of two bytes each.
MOST_TO_REFINE = 50_000_000


class ProPMLClassifier(CandidateClassifier):
    """Networks that learn from candidate labels; λ, epochs, shares and threshold are chosen without a clean label.

    Parameters
    ----------
    loss : {"power", "propml", "bce", "asl", "propall", "rank"} or callable
        A callable gets ``(logits, candidates, lam=…)`` and returns one value per example.
    lam : "auto" or float
        Weight of the excluded labels; "auto" chooses it by cross-validation on candidates.
    order : "auto" or float
        Order of the power mean, for ``loss="power"``; "auto" averages networks of order 0.5, and networks that only
        rank candidates above excluded labels (:func:`propml.losses.rank_loss`).
    hidden : "auto" or tuple of int
        Widths of the hidden layers, ``()`` for a linear model; "auto" averages a deep network (256, 256) and a wide one
        (512,) with input dropout (the deep one only where there are ten rows and more for each feature).
    dropout, input_dropout : float
        ``input_dropout`` is for a ``hidden`` of one's own; "auto" networks bring theirs.
    linear : "auto" or bool
        Whether a ridge regression on candidates is averaged in. "auto" means only with ``loss="power"``, and not with
        ``cv=None``; where no network by itself predicts held-out candidates better, beyond doubt, it is heard alone.
    refine : "auto" or bool
        Whether first models are trained to say how plausible each candidate is, and the networks that are kept learn
        from that (:func:`propml.losses.refined_loss`); "auto" means with ``loss="power"`` and ``lam="auto"`` where
        there are 500 rows and ten for each feature. Needs three folds at least.
    cv : int, iterable of (train, held-out) index pairs, or None
        Folds. Each network is judged on the rows that it did not see, and the networks of all folds are averaged.
        ``None`` trains on all rows for all epochs, with a given ``lam`` and a threshold of 0.5.
    criterion : {"average_precision", "bce", "one_error"} or callable
        How held-out candidates are judged; see :mod:`propml.neural.criteria`.
    n_models : int
        Networks of different seeds per fold, averaged.
    epochs, batch_size : "auto" or int
        "auto": about 1000 steps at most, in batches of 128 (more for many rows).
    early_stopping : bool
        Stop when no network has improved on its held-out rows for a third of the epochs.
    learning_rate, weight_decay, ema : float
        Adam, decoupled decay, and the decay of the running mean of the weights (0: none).
    threshold : "auto" or float
        A probability to cut at, instead of the chosen cut.
    device : str
        "auto" takes a GPU where there is one.
    bfloat16 : bool
        Multiply matrices in bfloat16.
    warm_start : bool
        The next ``fit`` goes on from the weights, λ and scaling of the last one.
    random_state : int, RandomState or None
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    lam_ : dict
        The λ of each kind of network.
    shares_ : dict
        How much each expert is heard.
    threshold_ : float
        The chosen cut, on the averaged logit.
    history_ : list of dict
        For each kind of network the settings that were tried, and after every epoch the criterion on held-out
        candidates and the training loss of every single network, ``(epochs, folds, seeds, settings)``.

    Examples
    --------
    >>> from propml.datasets import digits_mosaic
    >>> data = digits_mosaic(200)
    >>> model = ProPMLClassifier(hidden=(64,), epochs=30, random_state=0).fit(data.X, data.candidates)
    >>> model.predict_proba(data.X).shape
    (200, 10)
    """

    _takes_unknown = True

    _learned: ClassVar = {
        "ensemble_": ENSEMBLE,
        "lam_": {str: float},
        "shares_": {str: float},
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

    def __init__(
        self,
        loss: str | Callable[..., torch.Tensor] = "power",
        *,
        lam: float | Literal["auto"] = "auto",
        order: float | Literal["auto"] = "auto",
        hidden: tuple[int, ...] | Literal["auto"] = "auto",
        dropout: float = 0.5,
        input_dropout: float = 0.0,
        linear: bool | Literal["auto"] = "auto",
        refine: bool | Literal["auto"] = "auto",
        cv: int | Iterable[tuple[np.ndarray, np.ndarray]] | None = 5,
        criterion: str | Criterion = "average_precision",
        n_models: int = 1,
        epochs: int | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        early_stopping: bool = True,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        ema: float = 0.99,
        threshold: float | Literal["auto"] = "auto",
        device: str = "auto",
        bfloat16: bool = False,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.loss = loss
        self.lam = lam
        self.order = order
        self.hidden = hidden
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.linear = linear
        self.refine = refine
        self.cv = cv
        self.criterion = criterion
        self.n_models = n_models
        self.epochs = epochs
        self.batch_size = batch_size
        self.early_stopping = early_stopping
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.ema = ema
        self.threshold = threshold
        self.device = device
        self.bfloat16 = bfloat16
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from features and candidate labels.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n_samples, n_features)
            Raw features; they are scaled here. Sparse features stay sparse.
        y : candidate labels
            Anything that :func:`propml.targets.as_candidates` takes; -1 marks unknown entries.
        sample_weight : array-like, shape (n_samples,), optional
            How much each row counts; one of weight 0 is as good as not there.
        """
        self._fitted(X, y, sample_weight)
        return self

    def fit_held(self, X: Any, y: Any, sample_weight: Any = None) -> np.ndarray:
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
        cut = number_or_auto("threshold", self.threshold, np.nextafter(0, 1), 1, "a probability between 0 and 1")
        if cut != "auto":
            self.thresholds_[:] = cut
        if sample_weight is None:
            fitted = self._fit_ensemble(features, candidates, folds_of(self.cv, len(candidates)))
        else:
            weight = _check_sample_weight(sample_weight, features, ensure_non_negative=True)
            fitted = self._fit_weighted(features, candidates, weight)
        self._take(fitted)
        return fitted

    def _fit_weighted(self, X: Features, candidates: Candidates, weight: np.ndarray) -> Fitted:
        """Rows of weight 0 are as good as not there: nothing is learned, chosen or scaled by them."""
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
        seed = _seed(self.random_state)
        n = len(candidates)
        first, kept = self._stages(candidates, cv)
        linear = flag_or_auto("linear", self.linear)
        plan = Plan(
            kept,
            get_criterion(self.criterion),
            make_seeds(seed, positive_int("n_models", self.n_models)),
            self.loss == "power" and self.cv is not None if linear == "auto" else bool(linear),
            linear == "auto",
            choose_device(self.device),
            self._networks if self._goes_on() else None,
            first,
            {
                "patience": max(5, epochs_of(self, n) // 3) if self.early_stopping else None,
                "judge_every": max(1, epochs_of(self, n) // 50),
                "bfloat16": self.bfloat16,
                "show": bool(self.verbose),
            },
        )
        return fit_ensemble(X, candidates.to_matrix(), make_folds(n, cv, seed), plan, weight)

    def _stages(self, candidates: Candidates, cv: Any) -> tuple[list[Choice], list[Choice]]:
        """The networks that make first opinions (none without refinement), and those that are kept."""
        n = len(candidates)
        loss, order = get_loss(self.loss)
        wanted = number_or_auto("order", self.order, 0, np.inf, "a number of at least 0")
        averages = self.loss == "power" and wanted == "auto"
        if self.loss == "power":
            order = ORDER if averages else wanted
        refines = self._refines(candidates, cv)
        first, kept = [], []
        for name, kind in self._kinds(n).items():
            recipe = recipe_of(self, n, kind)
            if refines:
                first_order = kind.first_order if averages else order
                first.append(Choice(name, recipe, loss, self._settings(candidates, first_order, cv, (1.0,))))
                lams = self._lams(candidates, 0.0, cv)
                kept.append(Choice(f"{name}, refined", recipe, refined_loss, [{"lam": lam} for lam in lams]))
                continue
            kept.append(Choice(name, recipe, loss, self._settings(candidates, order, cv)))
            if averages and self.lam == "auto":
                kept.append(Choice(f"{name}, rank", recipe, rank_loss, [{"lam": 1.0}]))
        return first, self._gone_on(kept, candidates.shape[1]) if self._goes_on() else kept

    def _refines(self, candidates: Candidates, cv: Any) -> bool:
        wanted = flag_or_auto("refine", self.refine)
        enough = (len(cv) if isinstance(cv, list) else cv or 0) >= 3
        if wanted != "auto":
            if wanted and not enough:
                raise ValueError(
                    f"refine=True needs three folds, and ten rows, at least; cv is {self.cv!r} and there are "
                    f"{len(candidates)} rows"
                )
            return bool(wanted)
        n, n_labels = candidates.shape
        many = n >= max(FEWEST_ROWS_TO_REFINE, ROWS_PER_FEATURE * self.n_features_in_)
        return enough and self.loss == "power" and self.lam == "auto" and many and n * n_labels <= MOST_TO_REFINE

    def _settings(
        self, candidates: Candidates, order: float, cv: Any, spread: tuple[float, ...] = SPREAD
    ) -> list[dict[str, float]]:
        """What the loss is given, for every λ to try."""
        extra = {"order": order} if self.loss == "power" else {}
        return [{"lam": lam, **extra} for lam in self._lams(candidates, order, cv, spread)]

    def _kinds(self, n: int) -> dict[str, Kind]:
        """Deep; and, unless rows are many for each feature, wide with the input dropout that few rows ask for."""
        if self.hidden != "auto":
            return {"network": kind_of(self)}
        return {"deep": KINDS["deep"]} if n >= ROWS_PER_FEATURE * self.n_features_in_ else KINDS

    def _goes_on(self) -> bool:
        return bool(self.warm_start and getattr(self, "_networks", None))

    def _gone_on(self, kept: list[Choice], n_labels: int) -> list[Choice]:
        """The choices with the λ that they had, where none is given now; their networks must have kept their shapes."""
        for choice in kept:
            widths = [self.n_features_in_, *choice.recipe.hidden, n_labels]
            before = self._networks.get(choice.name)
            if not isinstance(before, Networks) or before.widths() != widths:
                raise ValueError(
                    f"warm_start goes on from the networks of the last fit, and {choice.name!r} of now was not among "
                    f"them or had other layers, features or labels; give the same arguments, or fit a new model"
                )
        if self.lam != "auto":
            return kept
        return [replace(c, settings=[{**c.settings[0], "lam": self.lam_[c.name]}]) for c in kept]

    def _lams(self, candidates: Candidates, order: float, cv: Any, spread: tuple[float, ...] = SPREAD) -> list[float]:
        lam = number_or_auto("lam", self.lam, 0, np.inf, "a number of at least 0")
        if lam != "auto":
            return [lam]
        if self.loss == "rank":
            return [1.0]
        if self.cv is None:
            raise ValueError('lam="auto" needs held-out rows to choose by; give cv=5 (folds), or a number for lam')
        return lam_grid(candidates, order, (1.0,) if cv is None else spread)

    def _take(self, fitted: Fitted) -> None:
        self.ensemble_ = ensemble_state(fitted.ensemble)
        # In double precision: then a row's scores do not depend on the rows that are scored with it.
        self._module = ensemble_from_state(self.ensemble_).double()
        # What a warm start goes on from: all networks, heard or not.
        self._networks = {e.name: e.module for e in fitted.experts if "lam" in e.setting} if self.warm_start else {}
        self.lam_ = {expert.name: expert.setting["lam"] for expert in fitted.experts if "lam" in expert.setting}
        names = [expert.name for expert in fitted.experts]
        self.shares_ = dict(zip(names, fitted.shares, strict=True))
        self.threshold_ = fitted.ensemble.threshold
        self.history_: list[dict[str, Any]] = [
            {
                "settings": list(fleet.settings),
                "criterion": fleet.criterion,
                "loss": fleet.loss,
                "best_epoch": fleet.best_epoch,
            }
            for fleet in fitted.fleets
        ]

    def _scores(self, X: Features) -> np.ndarray:
        device = choose_device(self.device)
        module = self._module.to(device)
        rows = max(1, min(4096, 2**24 // max(X.shape[1], 1)))
        parts = []
        with torch.no_grad():
            for start in range(0, X.shape[0], rows):
                block = X[start : start + rows]
                dense = sp.csr_array(block).toarray() if sp.issparse(block) else block
                dense = np.require(dense, requirements="W")  # of which torch warns, though nothing is written
                parts.append(module(torch.as_tensor(dense, device=device)).cpu().numpy())
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
        from propml.neural.export import write_onnx

        write_onnx(self.to_torch(), self.n_features_in_, path)

    def _saved_params(self) -> dict[str, Any]:
        params = super()._saved_params()
        for name in ("loss", "criterion"):
            if callable(params[name]):
                raise ValueError(
                    f"{name} is a function, which cannot be saved without pickle; save the model with to_torch() and "
                    f"torch.save, or use a named {name}"
                )
        seed = params["random_state"]
        params["random_state"] = int(seed) if isinstance(seed, int | np.integer) else None
        return params

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        check_schema(state["params"], {"device": str, str: object}, "the arguments")
        if state["params"]["device"] != "auto":
            torch.device(state["params"]["device"])  # that need not be there here, but must have the name of one
        model = super()._from_state(state)
        model._networks = {}
        return model

    def _try_out(self) -> np.ndarray:
        # On the CPU: the device of training need not be there where the model is loaded.
        self._module = ensemble_from_state(self.ensemble_).double()
        return self._module(torch.zeros(1, self.n_features_in_, dtype=torch.float64)).numpy()


def _seed(random_state: Any) -> int:
    from sklearn.utils import check_random_state

    if isinstance(random_state, int | np.integer):
        return int(random_state) % 2**31
    return int(check_random_state(random_state).randint(2**31))

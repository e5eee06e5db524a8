"""A model in a folder: the model, how columns become features, and a card that says what it was made of."""

from __future__ import annotations

import datetime
import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from propml import __version__
from propml.audit.features import Features
from propml.audit.files import UserTable
from propml.durable import write_whole
from propml.methods.base import CandidateClassifier
from propml.methods.registry import METHODS, load
from propml.plain_values import plain

__all__ = [
    "SavedModel",
    "file_digest",
    "make_card",
    "read_model",
    "versions",
    "write_json",
    "write_model",
]

MODEL, FEATURES, CARD = "model.safetensors", "features.json", "card.json"
PACKAGES = ("numpy", "scipy", "scikit-learn", "torch")


class SavedModel(NamedTuple):
    """What a model folder holds."""

    model: CandidateClassifier
    features: Features
    card: dict[str, Any]


def make_card(model: CandidateClassifier, table: UserTable, features: Features, **settings: Any) -> dict[str, Any]:
    """What a model was made of and how, as plain values.

    Parameters
    ----------
    model : CandidateClassifier
        Fitted.
    table : UserTable
        What it was fitted on.
    features : Features
    settings : dict
        What the user asked for, such as the columns and the seed.
    """
    names = [str(name) for name in table.candidates.labels]
    counts = np.asarray((table.candidates.states > 0).sum(axis=0)).ravel().tolist()
    method = next(name for name, known in METHODS.items() if known.name == type(model).__name__)
    return {
        "method": method,
        "parameters": plain(model.get_params(deep=False), lossy=True),
        "data": {
            "file": table.path.name,
            "sha256": file_digest(table.path),
            "rows": len(table.candidates),
            "rows_in_file": table.source.n_rows,
            "features": len(features.names),
            "labels": len(names),
            "candidates_per_row": round(float(table.candidates.sizes().mean()), 4),
            "notes": table.notes,
        },
        "labels": [{"name": name, "candidate_in_rows": n} for name, n in zip(names, counts, strict=True)],
        "columns": features.describe(),
        "lambda": _lambda(model),
        "thresholds": _thresholds(model, names),
        "settings": plain(settings, lossy=True),
        "versions": versions(),
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "limits": "Trained on candidate labels alone. Probabilities are only as right as the candidates allow: where "
        "two labels are always proposed together, nothing here can tell them apart.",
    }


def write_model(folder: str | Path, model: CandidateClassifier, features: Features, card: dict[str, Any]) -> Path:
    """Write the three files of a model folder; the folder is made if it is not there."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    features.save(folder / FEATURES)
    model.save(folder / MODEL)
    write_json(folder / CARD, {**card, "model_sha256": file_digest(folder / MODEL)})
    return folder


def read_model(folder: str | Path) -> SavedModel:
    """Read a model folder; files that do not belong together are refused."""
    folder = Path(folder)
    if not (folder / MODEL).is_file():
        raise FileNotFoundError(f"there is no model in {folder}; `propml fit` makes one")
    try:
        card = json.loads((folder / CARD).read_bytes())
        digest = card["model_sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / CARD} cannot be read ({error}); train again") from error
    if file_digest(folder / MODEL) != digest:
        raise ValueError(f"{folder / MODEL} is not the model that {CARD} describes; train again")
    model, features = load(folder / MODEL), Features.load(folder / FEATURES)
    if len(features.names) != model.n_features_in_:
        raise ValueError(
            f"{folder / FEATURES} makes {len(features.names)} features and the model takes {model.n_features_in_}; "
            f"the files do not belong together, train again"
        )
    return SavedModel(model, features, card)


def versions() -> dict[str, str]:
    """What this was computed with."""
    return {"propml": __version__, "python": platform.python_version()} | {name: version(name) for name in PACKAGES}


def file_digest(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write plain values as JSON that a person can read."""
    write_whole(path, (json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n").encode())


def _lambda(model: Any) -> dict[str, Any] | None:
    """The weight of the excluded labels, for methods that have one, and where it came from."""
    if not hasattr(model, "lam_"):
        return None
    used = {name: float(value) for name, value in model.lam_.items()}
    if model.lam != "auto":
        return {"used": used, "chosen": "given by the user"}
    tried = sorted({float(setting["lam"]) for kind in model.history_ for setting in kind["settings"]})
    how = "the λ that balances the two terms of the loss (too few rows to hold some out)"
    if len(tried) > 1:
        folds = model.cv if isinstance(model.cv, int) else "given"
        how = f"{model.criterion} on held-out candidate labels, {folds} folds, for each kind of network"
    return {"used": used, "chosen": how, "tried": tried}


def _thresholds(model: Any, names: list[str]) -> dict[str, Any]:
    by_label = {name: float(cut) for name, cut in zip(names, model.thresholds_, strict=True)}
    if hasattr(model, "threshold_"):
        chosen = "half-way between the best candidate and the best excluded label of held-out rows, on average"
        return {
            "probability": by_label,
            "logit": float(model.threshold_),
            "chosen": chosen if model.threshold == "auto" else "given by the user",
        }
    return {"probability": by_label, "chosen": "by the method, from candidate labels"}

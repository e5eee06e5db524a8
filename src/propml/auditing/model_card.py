"""A model in a folder: one file with the model and how columns become features, and a card of what it was made of."""

import datetime
import hashlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from propml.atomic_files import fill, replacing
from propml.extras import versions
from propml.file_errors import reading
from propml.jsonable import jsonable
from propml.methods.base import CandidateClassifier
from propml.methods.registry import METHODS, OTHERS, method_from_state
from propml.persistence import from_json_array, json_array, read_state, state_bytes
from propml.schema import Array, Schema, check_schema
from propml.tables.features import Features
from propml.tables.files import UserTable
from propml.tables.treatments import Matrix

MODEL, CARD = "model.safetensors", "card.json"
# What predictions need of a card.
READING: Schema = {"id_column": (None, str), "sep": (None, str), "decimal?": (None, str), str: object}
READING |= {"missing?": [str], "merge_labels?": bool}
CARD_READ: Schema = {"settings": {"reading?": READING, str: object}, "data": {"rows": int, str: object}, str: object}
CARD_READ |= {"labels": [{"candidate_in_rows": int, str: object}]}


class SavedModel(NamedTuple):
    """What a model folder holds."""

    model: CandidateClassifier
    features: Features
    card: dict[str, Any]


def make_card(model: CandidateClassifier, table: UserTable, features: Features, **settings: Any) -> dict[str, Any]:
    """What a fitted model was made of and how, as plain values; ``settings`` is what the user asked for."""
    names = [str(name) for name in table.candidates.labels]
    counts = np.asarray((table.candidates.states > 0).sum(axis=0)).ravel().tolist()
    method = next(name for name, known in (METHODS | OTHERS).items() if known.name == type(model).__name__)
    return {
        "method": method,
        "parameters": jsonable(model.get_params(deep=False), lossy=True),
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
        "settings": jsonable(settings, lossy=True),
        "versions": versions(),
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "limits": "Trained on candidate labels alone. Probabilities are only as right as the candidates allow: where "
        "two labels are always proposed together, nothing here can tell them apart.",
    }


def write_model(folder: str | Path, model: CandidateClassifier, features: Features, card: dict[str, Any]) -> Path:
    """Write a model folder; it is made if it is not there.

    One file holds all that predictions depend on, so that it is switched at once; ``card.json`` is a copy for people,
    and names that file by its digest. Whenever this is killed, the folder holds the model before or the new one, and a
    card of that one or none.
    """
    record = {"features": json_array(features.to_json()), "card": json_array({k: card[k] for k in card if k != "made"})}
    content = state_bytes(type(model).__name__, {**model._state(), "folder": record})
    card_file = Path(os.path.realpath(Path(folder) / CARD))
    with replacing(card_file) as new_card:
        fill(new_card, json_bytes({**card, "model_sha256": hashlib.sha256(content).hexdigest()}))
        with replacing(Path(folder) / MODEL) as new_model:
            fill(new_model, content)
            card_file.unlink(missing_ok=True)  # from here on it describes neither
    return Path(folder)


def read_model(folder: str | Path) -> SavedModel:
    """Read a model folder; files that do not belong together are refused."""
    path, card_file = Path(folder) / MODEL, Path(folder) / CARD
    if not path.is_file():
        raise FileNotFoundError(f"there is no model in {folder}; `propml fit` makes one")
    if card_file.is_file():
        with reading(card_file, "card of a model", "remove it (the model does without), or train again"):
            check_schema(copy := json.loads(card_file.read_bytes()), {"model_sha256": str, str: object}, "the card")
            if file_digest(path) != copy["model_sha256"]:
                raise ValueError(f"it describes another model than {path}")
    with reading(path, "model of a folder", "train again"):
        kind, state = read_state(path)
        if "folder" not in state:
            raise ValueError("it was saved without what becomes of columns, which `propml fit` adds")
        check_schema(state["folder"], {"features": Array("u", "bytes"), "card": Array("u", "characters")}, "the folder")
        features = Features.from_json(from_json_array(state["folder"]["features"]))
        card = from_json_array(state["folder"]["card"])
        check_schema(card, CARD_READ, "the card")
        model = method_from_state(kind, state)
        n_features = sum(t.n_features if isinstance(t, Matrix) else len(t.features) for t in features.treatments)
        if n_features != model.n_features_in_:
            raise ValueError(f"it makes {n_features} features and the model takes {model.n_features_in_}")
        return SavedModel(model, features, card)


def file_digest(path: Path) -> str:
    """SHA-256 of a file, read in pieces; of a folder, that of the names and digests of its files."""
    if path.is_dir():
        digests = [f"{part.name} {file_digest(part)}" for part in sorted(path.iterdir()) if part.is_file()]
        return hashlib.sha256("\n".join(digests).encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def json_bytes(content: dict[str, Any]) -> bytes:
    """Plain values as JSON that a person can read."""
    return (json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n").encode()


def _lambda(model: Any) -> dict[str, Any] | None:
    """The weight of the excluded labels, for methods that have one, and where it came from."""
    if not hasattr(model, "lam_"):
        return None
    alone = isinstance(model.lam_, float)
    used = model.lam_ if alone else {name: float(value) for name, value in model.lam_.items()}
    if model.lam != "auto":
        return {"used": used, "chosen": "given by the user"}
    if alone:
        return {"used": used, "chosen": "from the mean number of candidates in a row"}
    tried = sorted({float(setting["lam"]) for kind in model.history_ for setting in kind["settings"]})
    how = "the λ that balances the two terms of the loss"
    if any(len(kind["settings"]) > 1 for kind in model.history_):
        folds = model.cv if isinstance(model.cv, int) else "given"
        how = f"{model.criterion} on held-out candidate labels, {folds} folds, for each kind of network"
    return {"used": used, "chosen": how, "tried": tried}


def _thresholds(model: Any, names: list[str]) -> dict[str, Any] | None:
    if hasattr(model, "predict_top"):  # of many labels the best are told, whatever their probability
        return None
    told = {"probability": {name: float(cut) for name, cut in zip(names, model.thresholds_, strict=True)}}
    if not hasattr(model, "threshold_"):
        return {**told, "chosen": "by the method, from candidate labels"}
    how = "on held-out candidate labels, threshold='auto'" if model.threshold == "auto" else "given by the user"
    return {**told, "logit": float(model.threshold_), "chosen": how}

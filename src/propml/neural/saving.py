"""An ensemble as plain arrays and numbers, and back; and as an ONNX file."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from propml.extras import require
from propml.neural.encoding import FeatureScaler, QuantileBins
from propml.neural.ensemble import Ensemble, Networks, Standard
from propml.neural.forest import Forest
from propml.schema import Array, Schema

_FOREST: Schema = {
    **{name: Array("i", "nodes", least=0) for name in ("feature", "left", "right", "leaf")},
    "threshold": Array("f", "nodes"),
    "values": Array("f", "leaves", "labels", least=0, most=1),
    "roots": Array("i", "trees", least=0),
    "depth": int,
}
#: What :func:`ensemble_state` returns.
ENSEMBLE: Schema = {
    "scaler": {
        "center": Array("f", "features"),
        "scale": Array("f", "features"),
        "missing": Array("i", "missing", least=0),
        "keeps_zeros": bool,
        "counts": bool,
    },
    "bins": (
        None,
        {
            "columns": Array("i", "binned", least=0),
            "edges": Array("f", "binned", "b+1"),
            "level": Array("f", "binned", "b"),
        },
    ),
    "members": [
        (
            {"weights": [Array("f", "m", "in", "out")], "biases": [Array("f", "m", 1, "out")]},
            _FOREST,
        )
    ],
    "standards": [[float]],
    "weights": [float],
    "slope": float,
    "offset": float,
    "rate": Array("f", "labels", least=0, most=0.999999),
    "threshold": float,
}


def ensemble_state(ensemble: Ensemble) -> dict[str, Any]:
    """Everything that :func:`ensemble_from_state` needs, as arrays, numbers and lists."""
    bins = ensemble.bins
    return {
        "scaler": scaler_state(ensemble.scaler),
        "bins": None if bins is None else {name: _numpy(getattr(bins, name)) for name in ("columns", "edges", "level")},
        "members": [_member_state(member) for member in ensemble.members],
        "standards": [[standard.mean, standard.deviation] for standard in ensemble.standards],
        "weights": list(ensemble.weights),
        "slope": ensemble.slope,
        "offset": ensemble.offset,
        "rate": _numpy(ensemble.rate),
        "threshold": ensemble.threshold,
    }


def ensemble_from_state(state: dict[str, Any]) -> Ensemble:
    """The ensemble whose state this is, on the CPU."""
    scaler, bins = scaler_from_state(state["scaler"]), state["bins"]
    return Ensemble(
        scaler,
        None if bins is None else QuantileBins(bins["columns"], bins["edges"], bins["level"]),
        [_member_from_state(member, scaler.n_outputs) for member in state["members"]],
        [Standard(*standard) for standard in state["standards"]],
        state["weights"],
        state["slope"],
        state["offset"],
        state["rate"],
        state["threshold"],
    ).eval()


def scaler_state(scaler: FeatureScaler) -> dict[str, Any]:
    """Everything that :func:`scaler_from_state` needs."""
    arrays = {name: _numpy(getattr(scaler, name)) for name in ("center", "scale", "missing")}
    return {**arrays, "keeps_zeros": scaler.keeps_zeros, "counts": scaler.counts}


def scaler_from_state(state: dict[str, Any]) -> FeatureScaler:
    scaler = FeatureScaler(len(state["scale"]))
    for name in ("center", "scale", "missing"):
        setattr(scaler, name, torch.from_numpy(state[name]))
    scaler.keeps_zeros, scaler.counts = state["keeps_zeros"], state["counts"]
    return scaler


def _member_state(member: nn.Module) -> dict[str, Any]:
    if isinstance(member, Forest):
        arrays = {name: _numpy(getattr(member, name)) for name in Forest.ARRAYS}
        small = {name: array.astype(np.int32) for name, array in arrays.items() if array.dtype == np.int64}
        return {**arrays, **small, "depth": member.depth}
    assert isinstance(member, Networks)
    return {"weights": [_numpy(w) for w in member.weights], "biases": [_numpy(b) for b in member.biases]}


def _member_from_state(state: dict[str, Any], n_columns: int) -> nn.Module:
    if "roots" in state:
        _check_trees(state, n_columns)
        return Forest({name: state[name] for name in Forest.ARRAYS}, state["depth"])
    weights, biases = state["weights"], state["biases"]
    members = [[(w[k], b[k, 0]) for w, b in zip(weights, biases, strict=True)] for k in range(len(weights[0]))]
    return Networks(members)


def _check_trees(state: dict[str, Any], n_columns: int) -> None:
    """Numbers of nodes, leaves and columns that lead nowhere would be read from foreign memory on a GPU."""
    nodes, leaves = len(state["feature"]), len(state["values"])
    inside = all(state[name].max(initial=-1) < nodes for name in ("left", "right", "roots"))
    if not inside or state["leaf"].max(initial=-1) >= leaves or not 0 <= state["depth"] <= nodes:
        raise ValueError("its trees name nodes that do not exist")
    if state["feature"].max(initial=-1) >= n_columns:
        raise ValueError("its trees look at columns that do not exist")


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()


class _WithProbabilities(nn.Module):
    def __init__(self, ensemble: nn.Module) -> None:
        super().__init__()
        self.ensemble = ensemble

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.ensemble(X)
        return logits, torch.sigmoid(logits)


def write_onnx(ensemble: nn.Module, n_features: int, path: str | Path) -> None:
    """Write ``X (n, n_features) → logits, probabilities (n, n_labels)`` for any number of rows."""
    require("onnx", "onnx")
    require("onnxscript", "onnx")
    torch.onnx.export(
        _WithProbabilities(ensemble).eval(),
        (torch.zeros(2, n_features),),
        str(path),
        input_names=["X"],
        output_names=["logits", "probabilities"],
        dynamic_shapes={"X": {0: torch.export.Dim("rows")}},
        dynamo=True,
        external_data=False,
        verbose=False,
    )

"""An ensemble as plain arrays and numbers, and back."""

from typing import Any

import numpy as np
import torch
from torch import nn

from propml.neural.ensemble import Ensemble, Linear, Networks, Standard
from propml.neural.features import FeatureScaler
from propml.schema import Array, Schema

_STANDARD: Schema = {"mean": float, "deviation": float}
#: What :func:`ensemble_state` returns.
ENSEMBLE: Schema = {
    "scaler": {
        "center": Array("f", "features"),
        "scale": Array("f", "features"),
        "keeps_zeros": bool,
        "counts": bool,
    },
    "experts": [
        (
            {"weight": Array("f", "features", "labels"), "bias": Array("f", "labels"), **_STANDARD},
            {"weights": [Array("f", "m", "in", "out")], "biases": [Array("f", "m", 1, "out")], **_STANDARD},
        )
    ],
    "shares": [float],
    "slope": float,
    "threshold": float,
}


def ensemble_state(ensemble: Ensemble) -> dict[str, Any]:
    """Everything that :func:`ensemble_from_state` needs, as arrays, numbers and lists."""
    scaler = ensemble.scaler
    return {
        "scaler": {
            "center": scaler.center.cpu().numpy(),
            "scale": scaler.scale.cpu().numpy(),
            "keeps_zeros": scaler.keeps_zeros,
            "counts": scaler.counts,
        },
        "experts": [_expert_state(expert) for expert in ensemble.experts],
        "shares": list(ensemble.shares),
        "slope": ensemble.slope,
        "threshold": ensemble.threshold,
    }


def ensemble_from_state(state: dict[str, Any]) -> Ensemble:
    """The ensemble whose state this is, on the CPU."""
    stored = state["scaler"]
    scaler = FeatureScaler(len(stored["scale"]))
    scaler.center, scaler.scale = torch.from_numpy(stored["center"]), torch.from_numpy(stored["scale"])
    scaler.keeps_zeros, scaler.counts = bool(stored["keeps_zeros"]), bool(stored["counts"])
    experts = [_expert_from_state(expert) for expert in state["experts"]]
    return Ensemble(scaler, experts, state["shares"], state["slope"], state["threshold"]).eval()


def _expert_state(expert: nn.Module) -> dict[str, Any]:
    assert isinstance(expert, Networks | Linear)
    standard = {"mean": expert.standard.mean, "deviation": expert.standard.deviation}
    if isinstance(expert, Linear):
        return {"weight": _numpy(expert.weight), "bias": _numpy(expert.bias), **standard}
    return {
        "weights": [_numpy(w) for w in expert.weights],
        "biases": [_numpy(b) for b in expert.biases],
        **standard,
    }


def _expert_from_state(state: dict[str, Any]) -> nn.Module:
    standard = Standard(state["mean"], state["deviation"])
    if "weight" in state:
        return Linear(state["weight"], state["bias"], standard)
    weights, biases = state["weights"], state["biases"]
    members = [[(w[k], b[k, 0]) for w, b in zip(weights, biases, strict=True)] for k in range(len(weights[0]))]
    return Networks(members, standard)


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()

"""A trained network as an ONNX file that takes plain pixels and is checked against the network it was made from."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from propml.durable import replacing
from propml.extras import require
from propml.vision.checkpoint import TrainedNetwork

__all__ = ["ExportedNetwork", "export_onnx"]


@dataclass(frozen=True)
class ExportedNetwork:
    """An ONNX file, and by how much its probabilities differ from the network's at most."""

    path: Path
    largest_difference: float


class _FromPixels(nn.Module):
    """Normalisation, network and probabilities in one: whoever runs it can do none of them wrong."""

    scale: Tensor
    shift: Tensor

    def __init__(self, trained: TrainedNetwork) -> None:
        super().__init__()
        self.network = trained.network
        self.register_buffer("scale", 1 / (255 * torch.tensor(trained.std)).view(1, 3, 1, 1))
        self.register_buffer("shift", -(torch.tensor(trained.mean) / torch.tensor(trained.std)).view(1, 3, 1, 1))

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.network(pixels.permute(0, 3, 1, 2).float() * self.scale + self.shift)
        return logits, torch.sigmoid(logits)


def export_onnx(trained: TrainedNetwork, path: str | Path, *, tolerance: float = 1e-3) -> ExportedNetwork:
    """Write ``pixels`` uint8 ``(n, size, size, 3)`` → ``logits``, ``probabilities`` float32 ``(n, n_labels)``.

    The file also holds the label names, as JSON under ``labels`` in its metadata. It works for any number of images,
    and is run once by ONNX Runtime beside the network before it is put in its place.

    Parameters
    ----------
    trained : TrainedNetwork
    path : path
        An ``.onnx``.
    tolerance : float
        By how much probabilities may differ.
    """
    onnx = require("onnx", "onnx")
    require("onnxscript", "onnx")
    path = Path(path)
    if path.suffix != ".onnx":
        raise ValueError(f"{path} ends in {path.suffix!r}; choose a name in .onnx")
    size = trained.recipe.side
    whole = _FromPixels(trained).cpu().eval()
    with replacing(path) as beside:
        _write(whole, beside, size)
        model = onnx.load(beside)
        onnx.helper.set_model_props(model, {"labels": json.dumps(list(trained.label_names), ensure_ascii=False)})
        onnx.save(model, beside)
        difference = _difference(whole, beside, size)
        if not difference <= tolerance:
            raise ValueError(
                f"the ONNX file differs from the network by {difference:.2g} in a probability, more than "
                f"{tolerance:g}; it was not written"
            )
    return ExportedNetwork(path, difference)


def _write(whole: nn.Module, path: Path, size: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of torch to itself
        torch.onnx.export(
            whole,
            (torch.zeros(2, size, size, 3, dtype=torch.uint8),),
            str(path),
            input_names=["pixels"],
            output_names=["logits", "probabilities"],
            dynamic_shapes={"pixels": {0: torch.export.Dim("images")}},
            dynamo=True,
            external_data=False,
            verbose=False,
        )


@torch.no_grad()
def _difference(whole: nn.Module, path: Path, size: int) -> float:
    """The largest difference between probabilities, over three random images."""
    pixels = np.random.default_rng(0).integers(0, 256, (3, size, size, 3), dtype=np.uint8)
    session = require("onnxruntime", "onnx").InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = session.run(["probabilities"], {"pixels": pixels})[0]
    return float(np.abs(found - whole(torch.from_numpy(pixels))[1].numpy()).max())

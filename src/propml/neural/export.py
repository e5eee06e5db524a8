"""A fitted ensemble as an ONNX file."""

from pathlib import Path

import torch
from torch import Tensor, nn

from propml.extras import require


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

"""Checkpoints: everything that the rest of a run depends on; and trained networks, which anyone may load or export.

Both are safetensors with JSON beside the arrays and a checksum over all (:mod:`propml.persistence`), written whole or
not at all. The state of no random generator is in them, because none is carried from step to step: what is random in a
step is drawn from a seed made of the run's seed, the epoch, the step and the process. An ONNX file takes plain pixels
and is checked against the network it was made from.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from propml.atomic_files import replacing
from propml.extras import require
from propml.file_errors import reading
from propml.persistence import read_state, write_state
from propml.schema import Array, Schema, check_schema
from propml.vision.backbone import ImageNetwork, input_of, make_network, resolved
from propml.vision.batches import Augment
from propml.vision.optimiser import WeightAverage
from propml.vision.recipe import VisionRecipe, recipe_from

CHECKPOINT, NETWORK = "vision-checkpoint", "vision-network"
PROGRESS = ("epoch", "step", "losses", "history", "best")  # saved as they are
TRAINED: Schema = {
    "weights": {str: object},
    "card": {str: object},
    "recipe": {str: object},
    "labels": [str],
    "mean": [float],
    "std": [float],
}


@dataclass
class TrainingState:
    """A run between two steps."""

    network: nn.Module
    average: WeightAverage
    optimiser: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    epoch: int = 0  # of the next step to take, whose number within the epoch is
    step: int = 0
    losses: list[float] = field(default_factory=list)  # of the steps of this epoch that were taken
    history: list[dict[str, Any]] = field(default_factory=list)  # one entry per epoch that was evaluated
    best: dict[str, Any] | None = None  # epoch, worth and weights ("raw", "ema" or "half") of what was selected so far
    # (n_images, n_labels): the entries that carry loss in this epoch (CDCR); not saved, as every epoch selects anew.
    selected: Tensor | None = None
    saved_at: float = field(default_factory=time.monotonic)  # the last checkpoint, or the beginning

    def save(self, path: Path) -> None:
        """Write a checkpoint, in place of the one before."""
        state = {
            "network": _arrays(self.network.state_dict()),
            "average": _arrays(self.average.network.state_dict()),
            "updates": self.average.updates,
            "moments": _arrays(self.optimiser.state_dict()["state"]),
            "scaler": self.scaler.state_dict(),
            **{name: getattr(self, name) for name in PROGRESS},
        }
        write_state(path, CHECKPOINT, state)

    def restore(self, path: Path) -> None:
        """Become the state that was saved; the network, optimiser and average must be of the same kind."""
        parameters = [parameter for group in self.optimiser.param_groups for parameter in group["params"]]
        state = _read(path, CHECKPOINT, self._schema(parameters), "go on with the run it belongs to, or start it anew")
        _fill(self.network, state["network"])
        _fill(self.average.network, state["average"])
        self.average.updates = state["updates"]
        fused = self.optimiser.defaults.get("fused")
        for number, saved in state["moments"].items():
            parameter, steps = parameters[int(number)], torch.as_tensor(saved.pop("step")).reshape(())
            # Fused kernels count on the GPU, and want moments that lie in memory as their parameter does.
            moments = {name: torch.empty_like(parameter).copy_(torch.as_tensor(own)) for name, own in saved.items()}
            self.optimiser.state[parameter] = {"step": steps.to(parameter.device if fused else "cpu"), **moments}
        if state["scaler"]:
            self.scaler.load_state_dict(state["scaler"])
        for name in PROGRESS:
            setattr(self, name, state[name])

    def _schema(self, parameters: list[Tensor]) -> Schema:
        """What a checkpoint of this network and this optimiser holds."""
        moments = {
            f"{number}?": {
                "step": Array("f", 1, least=0),
                **dict.fromkeys(("exp_avg", "exp_avg_sq"), Array("f", *parameter.shape, finite=False)),
            }
            for number, parameter in enumerate(parameters)
        }
        return {
            **dict.fromkeys(("network", "average"), _weights_schema(self.network)),
            "moments": moments,
            "scaler": {str: float},
            **dict.fromkeys(("epoch", "step", "updates"), int),
            "losses": [Real],
            "history": [{str: object}],
            "best": (None, {"worth": Real, "epoch": int, "weights": str, str: object}),
            str: object,  # what older versions kept
        }


@dataclass(frozen=True)
class TrainedNetwork:
    """A network with what one must know to use it."""

    network: ImageNetwork  # in evaluation mode
    label_names: tuple[str, ...]
    recipe: VisionRecipe  # its size is the side of the images
    mean: tuple[float, ...]  # by which pixels in [0, 1] are normalised
    std: tuple[float, ...]
    card: dict[str, Any]  # where the weights come from: λ, epoch, raw or averaged, metrics


def save_network(
    path: Path, network: nn.Module, recipe: VisionRecipe, label_names: tuple[str, ...], card: Mapping[str, Any]
) -> None:
    """Write a trained network with its labels and its card."""
    _, mean, std = input_of(recipe.backbone)
    state = {"weights": _arrays(network.state_dict()), "card": dict(card), "recipe": asdict(resolved(recipe))}
    write_state(path, NETWORK, state | {"labels": list(label_names), "mean": list(mean), "std": list(std)})


def load_network(path: str | Path, device: str | torch.device = "cpu") -> TrainedNetwork:
    """Read what ``propml vision train`` wrote: a run's folder, or the file ``best.safetensors`` in it."""
    path = Path(path)
    path = path / "best.safetensors" if path.is_dir() else path
    remedy = "give best.safetensors of a run"
    state = _read(path, NETWORK, TRAINED, remedy)
    with reading(path, "vision network", remedy):
        if not {len(state["mean"]), len(state["std"])} == {3} or 0 in state["std"]:
            raise ValueError("it does not say how the three colours are normalised")
        recipe = resolved(recipe_from(state["recipe"], path))
        network = make_network(recipe, len(state["labels"]), load_weights=False)
        check_schema(state["weights"], _weights_schema(network), "the network")
        _fill(network, state["weights"])
    labels, mean, std = (tuple(state[name]) for name in ("labels", "mean", "std"))
    return TrainedNetwork(network.to(device).eval(), labels, recipe, mean, std, state["card"])


def _read(path: Path, kind: str, schema: Schema, remedy: str) -> dict[str, Any]:
    with reading(path, kind.replace("-", " "), remedy):
        found, state = read_state(path)
        if found != kind:
            raise ValueError(f"{path} holds a {found}, expected a {kind}; {remedy}")
        check_schema(state, schema, "it")
    return state


def _weights_schema(network: nn.Module) -> Schema:
    """The arrays of a network; a single number is kept as an array of one."""
    return {
        name: Array("f" if value.is_floating_point() else "biu", *(value.shape or (1,)), finite=False)
        for name, value in network.state_dict().items()
    }


def _fill(network: nn.Module, arrays: Mapping[str, np.ndarray]) -> None:
    """Copy saved arrays into a network, which keeps its devices and memory formats."""
    with torch.no_grad():
        for name, value in network.state_dict().items():
            value.copy_(torch.from_numpy(np.array(arrays[name])).reshape(value.shape))


def _arrays(tree: Any) -> Any:
    """Tensors as NumPy arrays, whatever dictionaries they stand in."""
    if isinstance(tree, Tensor):
        return tree.detach().contiguous().cpu().numpy()
    if isinstance(tree, dict):
        return {key: _arrays(value) for key, value in tree.items()}
    return tree


@dataclass(frozen=True)
class ExportedNetwork:
    """An ONNX file, and by how much its probabilities differ from the network's at most."""

    path: Path
    largest_difference: float


class _FromPixels(nn.Module):
    """Normalisation, network and probabilities in one: whoever runs it can do none of them wrong."""

    def __init__(self, trained: TrainedNetwork) -> None:
        super().__init__()
        self.network, self.normalised = trained.network, Augment(trained.mean, trained.std).plain

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.network(self.normalised(pixels.permute(0, 3, 1, 2)))
        return logits, torch.sigmoid(logits)


def export_onnx(trained: TrainedNetwork, path: str | Path, *, tolerance: float = 1e-3) -> ExportedNetwork:
    """Write ``pixels`` uint8 ``(n, size, size, 3)`` → ``logits``, ``probabilities`` float32 ``(n, n_labels)``.

    The file also holds the label names, as JSON under ``labels`` in its metadata. It works for any number of images,
    and is run once by ONNX Runtime beside the network before it is put in its place, ``path``, which ends in ``.onnx``.
    Probabilities that differ by more than ``tolerance`` are an error.
    """
    onnx = require("onnx", "onnx")
    require("onnxscript", "onnx")
    path = Path(path)
    if path.suffix != ".onnx":
        raise ValueError(f"{path} ends in {path.suffix!r}; choose a name in .onnx")
    size = trained.recipe.side
    whole = _FromPixels(trained).cpu().eval()
    with replacing(path) as beside:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of torch to itself
            torch.onnx.export(
                whole,
                (torch.zeros(2, size, size, 3, dtype=torch.uint8),),
                str(beside),
                input_names=["pixels"],
                output_names=["logits", "probabilities"],
                dynamic_shapes={"pixels": {0: torch.export.Dim("images")}},
                dynamo=True,
                external_data=False,
                verbose=False,
            )
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


@torch.no_grad()
def _difference(whole: nn.Module, path: Path, size: int) -> float:
    """The largest difference between probabilities, over three random images."""
    pixels = np.random.default_rng(0).integers(0, 256, (3, size, size, 3), dtype=np.uint8)
    session = require("onnxruntime", "onnx").InferenceSession(str(path), providers=["CPUExecutionProvider"])
    probabilities = session.run(["probabilities"], {"pixels": pixels})[0]
    return float(np.abs(probabilities - whole(torch.from_numpy(pixels))[1].numpy()).max())

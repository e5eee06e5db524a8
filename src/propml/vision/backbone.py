"""Networks for images: a backbone of timm by name, with a head that gives one logit per label.

Weights come from nowhere (random), from timm's download, or from a file, which is checked: every tensor of the backbone
must be in it, with the right shape, and nothing that is in it may be left over but its old classifier.
"""

from __future__ import annotations

import importlib
import inspect
import math
import os
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from propml.extras import require
from propml.file_errors import reading
from propml.messages import did_you_mean
from propml.vision.query2label import Query2Label
from propml.vision.recipe import VisionRecipe

SMALL_CNN = "small_cnn"
# A torchvision built for CUDA beside a torch for the CPU cannot load its own operators, which nothing here calls.
# Declaring the two that its import looks for is enough: transforms and models then work.
_DECLARED: list[torch.library.Library] = []  # a declaration lasts as long as its library is alive


def import_vision(module: str = "torchvision") -> ModuleType:
    """Import torchvision, timm or a module inside one of them, whatever torchvision was built for."""
    try:
        require("torchvision", "vision")  # timm imports it, and its error would come from deep inside
    except RuntimeError as error:
        if "operator torchvision::nms does not exist" not in str(error):
            raise
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _DECLARED.append(library)
        importlib.import_module("torchvision")
    return require(module, "vision")


class ImageNetwork(nn.Module):
    """A backbone with timm's ``forward_features`` and ``forward_head``, and a head."""

    def __init__(self, backbone: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``(B, n_labels)`` of normalised images ``(B, 3, H, W)``."""
        if isinstance(self.head, Query2Label):
            return self.head(self.feature_map(images))
        return self.head(self.features(images))

    def features(self, images: Tensor) -> Tensor:
        """Pooled features ``(B, n_features)``, which methods for tables can learn from."""
        backbone: Any = self.backbone
        return backbone.forward_head(backbone.forward_features(images), pre_logits=True)

    def feature_map(self, images: Tensor) -> Tensor:
        """The last feature map, ``(B, channels, h, w)``, whatever layout the backbone has."""
        backbone: Any = self.backbone
        found = backbone.forward_features(images)
        if found.ndim == 3:  # the tokens of a transformer; the first ones, which not all count, stand for no place
            places = found.shape[1] - getattr(backbone, "num_prefix_tokens", 0)
            side = math.isqrt(places)
            return found[:, -(side**2) :].transpose(1, 2).reshape(len(found), -1, side, side)
        return found.permute(0, 3, 1, 2) if getattr(backbone, "output_fmt", "NCHW") == "NHWC" else found


class SmallCNN(nn.Module):
    """Three convolutions for thumbnails; group norms, so that an image's logits do not depend on its batch."""

    num_features = head_hidden_size = 128

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for n_in, n_out in ((3, 32), (32, 64), (64, 128)):
            layers += [nn.Conv2d(n_in, n_out, 3, padding=1, bias=False), nn.GroupNorm(8, n_out), nn.ReLU()]
            layers += [nn.MaxPool2d(2)]
        self.layers = nn.Sequential(*layers)

    def forward_features(self, images: Tensor) -> Tensor:
        """The feature map, an eighth of the image's side."""
        return self.layers(images)

    def forward_head(self, feature_map: Tensor, pre_logits: bool = True) -> Tensor:
        """Mean over places."""
        return feature_map.mean(dim=(2, 3))


def make_network(recipe: VisionRecipe, n_labels: int, *, load_weights: bool = True) -> ImageNetwork:
    """The network that a recipe asks for, on the CPU.

    Two black images are tried, of every size that the recipe shows it, and an error names a size that it does not take;
    not so without ``load_weights``, where those of the whole network are loaded afterwards.
    """
    recipe = resolved(recipe)
    backbone = _backbone(recipe.backbone, recipe.side, recipe.weights if load_weights else None)
    head: nn.Module
    if recipe.head == "query2label":
        inner = recipe.head_feedforward or 4 * recipe.head_width
        head = Query2Label(backbone.num_features, n_labels, width=recipe.head_width, feedforward=inner)
    else:
        head = nn.Linear(getattr(backbone, "head_hidden_size", backbone.num_features), n_labels)
        nn.init.normal_(head.weight, std=0.01)
        nn.init.zeros_(head.bias)
    network = ImageNetwork(backbone, head)
    for side in sorted({recipe.side, recipe.crop_size or recipe.side}) if load_weights else ():
        try:
            with torch.no_grad():
                network.eval()(torch.zeros(2, 3, side, side))  # batch norms must not learn from black images
        except MemoryError:
            raise
        except Exception as error:  # whatever a backbone makes of a size that it is not made for
            raise _misfit(recipe.backbone, side, error) from error
    return network.train()


def input_of(backbone: str) -> tuple[int, tuple[float, ...], tuple[float, ...]]:
    """What the weights of a backbone want: side in pixels, and mean and standard deviation of pixels in [0, 1]."""
    if backbone == SMALL_CNN:
        return 16, (0.5,) * 3, (0.25,) * 3
    config = _config(backbone)
    return config.input_size[-1], tuple(config.mean), tuple(config.std)


def resolved(recipe: VisionRecipe) -> VisionRecipe:
    """The recipe with what its backbone decides: the size, the weights to start from, and what is learned at once."""
    weights = None if recipe.weights is None else os.path.expandvars(recipe.weights)
    if weights is not None and weights.startswith("$"):
        raise ValueError(f"weights is {weights}, and no such variable is set; set it to a file of weights")
    if weights == "auto":
        weights = None if recipe.backbone == SMALL_CNN else "pretrained"
    simple = recipe.head == "linear" and recipe.curriculum == "none" and recipe.select != "last"
    tune = recipe.tune if recipe.tune != "auto" else "all" if weights is not None and simple else "at-once"
    return replace(recipe, weights=weights, tune=tune, size=recipe.size or input_of(recipe.backbone)[0])


def _misfit(backbone: str, side: int, error: Exception) -> ValueError:
    why = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
    return ValueError(
        f"{backbone} cannot take images of {side} × {side} pixels ({why}); "
        f"give another --size, --crop-size or --backbone"
    )


def _backbone(name: str, size: int, weights: str | None) -> Any:
    if name == SMALL_CNN:
        if weights == "pretrained":
            raise ValueError(f"{SMALL_CNN} has no pretrained weights; give weights none, or a backbone of timm")
        backbone: Any = SmallCNN()
    else:
        timm = import_vision("timm")
        options: dict[str, Any] = {"img_size": size} if _config(name).fixed_input_size else {}
        try:
            backbone = timm.create_model(name, pretrained=weights == "pretrained", num_classes=0, **options)
        except AssertionError as error:  # a size that its patches or windows do not divide
            raise _misfit(name, size, error) from error
        except (OSError, RuntimeError, ImportError) as error:
            if weights != "pretrained":
                raise
            raise OSError(
                f"the weights of {name} could not be downloaded ({str(error).splitlines()[0]}); "
                f"give a file with --weights, or train from random weights with --weights none"
            ) from error
    if weights not in (None, "pretrained"):
        load_backbone(backbone, Path(weights))
    return backbone


def _config(name: str) -> Any:
    timm = import_vision("timm")
    if not timm.is_model(name.partition(".")[0]):
        hint = did_you_mean(name, timm.list_models(), "timm.list_models() names them all")
        raise ValueError(f"timm knows no image model {name!r}; {hint} ({SMALL_CNN} is ours, for thumbnails)")
    return timm.get_pretrained_cfg(name) or timm.models.PretrainedCfg()


def load_backbone(backbone: nn.Module, path: Path) -> None:
    """Load a file of weights, without its pickles; timm translates the names of the official TResNet files."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file of weights at {path}")
    remedy = "give a safetensors file, or what torch.save made of the same model's state_dict()"
    with reading(path, "file of weights", remedy):
        state = import_vision("timm.models").load_state_dict(str(path), use_ema=False, weights_only=True)
        if not all(isinstance(value, Tensor) for value in state.values()):
            raise ValueError("it does not hold tensors by name")
        if translate := getattr(inspect.getmodule(type(backbone)), "checkpoint_filter_fn", None):
            state = translate(state, backbone)
        missing, extra = backbone.load_state_dict(state, strict=False)
    own = {name for name in missing if not name.endswith("num_batches_tracked")}
    other = {name for name in extra if not name.startswith(("fc.", "head.", "classifier.", "head_dist."))}
    for names, what in ((own, "lacks"), (other, "has, unknown to this backbone,")):
        if names:
            raise ValueError(
                f"{path} does not fit the backbone: it {what} {len(names)} tensors, such as {min(names)}; "
                f"give the file of the same model"
            )

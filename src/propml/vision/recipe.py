"""How a network is trained on images: one dataclass, whose defaults are the paper's values.

What differs from the released configuration, each with the reason:

- λ is chosen on held-out candidates, epoch and weights too; the paper chose all three on test labels.
- The average of the weights warms up. At a constant 0.9997 the random first weights still weigh 31 % after the paper's
  3950 steps on VOC; ``ema_warmup=False`` does that.
- Losses are means over images. Some released codes sum; under Adam that only rescales the weight decay.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from propml.atomic_files import write_whole

__all__ = ["DEFAULT", "METHODS", "Recipe", "Stage", "read_recipe", "recipe_from", "write_recipe"]

COMPILE = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
# These change what is watched, not what is learned, so that a run may go on with other values.
WATCHING = ("eval_every", "look_every", "checkpoint_seconds", "compile")


class Stage(NamedTuple):
    """Some epochs with an optimiser and a learning-rate schedule of their own.

    Attributes
    ----------
    first, last : int
        Epochs, the last one not included.
    schedule_epochs : int
        How long the one-cycle schedule would take to its end; the stage may stop before.
    selects : bool
        Whether only candidates that the network itself finds plausible are learned from (CDCR's second stage).
    """

    first: int
    last: int
    schedule_epochs: int
    selects: bool


@dataclass(frozen=True)
class Recipe:
    """The settings of one training run.

    Attributes
    ----------
    size : int
        Images are resized to ``size × size`` pixels.
    noise : float or None
        Flip every label that is not true to "candidate" with this probability, once, before training; ``None``: learn
        from the candidates that the images come with (or from their true labels where they have no others).
    hold_out : float
        The share of training images whose candidates choose λ, epoch and weights.
    backbone : str
        Any image model of timm by its name, or ``"small_cnn"``, for tests and thumbnails.
    weights : str or None
        What the backbone starts from: ``None`` (random), ``"pretrained"`` (downloaded by timm) or a file.
    head : {"linear", "query2label"}
    head_width, head_feedforward : int
        Width of the Query2Label transformer, and of the layers inside it.
    loss : {"propml", "bce", "asl", "propall", "power", "unbiased"}
    lam : float or "auto"
        Weight of the excluded labels. ``"auto"``: chosen on held-out candidates for ``propml`` and ``power``, 1 for the
        others, which were published without it.
    lam_epochs : int or None
        How long each λ is tried; ``None``: a third of ``epochs``.
    order : float
        Of the power mean in ``power``.
    flip_rate : float or None
        P(candidate | not true) for ``unbiased``; ``None``: estimated from the candidates.
    gamma_positive, gamma_negative, clip : float
        Of ``asl``, as in its authors' COCO script.
    curriculum : {"none", "cdcr", "cdcr-difficulty"}
        CDCR selects the candidates to learn from; ``cdcr-difficulty`` does so class by class.
    warmup_epochs : int
        CDCR's first stage, on all candidates; part of ``epochs``.
    confidence : float
        What a candidate must reach to be selected by CDCR.
    epochs, batch_size : int
        A batch is what all processes see together in one step.
    optimiser : {"adam", "adamw"}
        The paper's Adam couples weight decay with the gradient; AdamW does not.
    lr, weight_decay : float
        The highest learning rate of the one-cycle schedule; biases and norms do not decay.
    pct_start : float
        The share of the schedule in which the learning rate rises.
    schedule_epochs : int or None
        The horizon of the schedule; ``None``: it ends with its stage. CDCR and ASL use 80 and stop before.
    ema_decay : float
        Of the running average of weights; 0: no average.
    ema_warmup : bool
        Let the decay grow with the steps, min(decay, (1 + t) / (10 + t)), so that the first weights are forgotten.
    augment : {"paper", "randaugment", "crop", "light", "none"}
        ``"paper"``: flip, cutout 0.5, RandAugment; ``"randaugment"``: without cutout; ``"crop"``: flip, a random crop,
        other colours, for networks that start from random weights; ``"light"``: flip only.
    crop_size : int or None
        Side of the crops of ``augment="crop"`` in pixels; ``None``: ``size``. Crops make things larger: at 0.8 of
        ``size`` they look as large as in whole images, and a step takes two thirds of the time.
    precision : {"auto", "float32", "bfloat16", "float16"}
        ``"auto"``: bfloat16 on GPUs that have it, float16 with gradient scaling on others, float32 on the CPU.
    compile : str or None
        A mode of ``torch.compile``.
    select : {"candidates", "oracle", "last"}
        How epoch and weights (raw or average) are chosen: by held-out candidates, by the true labels of the validation
        images (which is what the paper does, on test images), or not at all: train on all images to the end.
    criterion : {"mAP", "average_precision"}
        What is measured on held-out candidates: classes rank images, or images rank labels.
    seed : int
    eval_every : int
        Epochs between two evaluations; the last epoch is always evaluated.
    look_every : int
        Steps between two looks at the losses, at which a NaN is noticed and a checkpoint may be written.
    checkpoint_seconds : float
        The least time between two checkpoints.

    Examples
    --------
    >>> Recipe(loss="bce", epochs=20).stages()
    [Stage(first=0, last=20, schedule_epochs=20, selects=False)]
    """

    size: int = 224
    noise: float | None = None
    hold_out: float = 0.1
    backbone: str = "tresnet_l"
    weights: str | None = None
    head: Literal["linear", "query2label"] = "linear"
    head_width: int = 2048
    head_feedforward: int = 8192
    loss: Literal["propml", "bce", "asl", "propall", "power", "unbiased"] = "propml"
    lam: float | Literal["auto"] = "auto"
    lam_epochs: int | None = None
    order: float = 0.5
    flip_rate: float | None = None
    gamma_positive: float = 0.0
    gamma_negative: float = 4.0
    clip: float = 0.05
    curriculum: Literal["none", "cdcr", "cdcr-difficulty"] = "none"
    warmup_epochs: int = 16
    confidence: float = 0.6
    epochs: int = 50
    batch_size: int = 64
    optimiser: Literal["adam", "adamw"] = "adam"
    lr: float = 7.4134e-5
    weight_decay: float = 6.627e-7
    pct_start: float = 0.2
    schedule_epochs: int | None = None
    ema_decay: float = 0.9997
    ema_warmup: bool = True
    augment: Literal["paper", "randaugment", "crop", "light", "none"] = "paper"
    crop_size: int | None = None
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    compile: str | None = None
    select: Literal["candidates", "oracle", "last"] = "candidates"
    criterion: Literal["mAP", "average_precision"] = "mAP"
    seed: int = 0
    eval_every: int = 1
    look_every: int = 50
    checkpoint_seconds: float = 120.0

    def __post_init__(self) -> None:
        for name, kind in KINDS.items():
            _check_kind(name, getattr(self, name), kind)
        if self.compile not in COMPILE:
            raise ValueError(f"compile is {self.compile!r}; choose one of {', '.join(map(str, COMPILE))}")
        for name in ("size", "epochs", "batch_size", "eval_every", "look_every", "head_width"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; give at least 1")
        if self.crop_size is not None and (self.augment != "crop" or self.crop_size < 1):
            raise ValueError(f'crop_size is {self.crop_size}; give at least 1, and augment="crop" with it')
        shares = {"noise": self.noise or 0.0, "hold_out": self.hold_out, "flip_rate": self.flip_rate or 0.0}
        for name, share in (shares | {"ema_decay": self.ema_decay, "clip": self.clip}).items():
            if not 0 <= share < 1:
                raise ValueError(f"{name} is {share}; it is a share of at least 0 and below 1")
        amounts = ("lr", "weight_decay", "order", "gamma_positive", "gamma_negative")
        for name in (*amounts, *(() if self.lam == "auto" else ("lam",))):
            if not 0 <= (value := getattr(self, name)) < math.inf:
                raise ValueError(f"{name} is {value}; give a finite number of at least 0")
        if self.hold_out == 0 and (self.select == "candidates" or self.chooses_lam):
            what = "λ is" if self.chooses_lam else "epoch and weights are"
            raise ValueError(
                f'hold_out is 0 and {what} chosen on held-out images; hold some out, or set lam and select="last"'
            )
        if self.curriculum != "none" and not 0 < self.warmup_epochs < self.epochs:
            raise ValueError(
                f"CDCR warms up for {self.warmup_epochs} of {self.epochs} epochs; give warmup_epochs between 0 and that"
            )

    @property
    def chooses_lam(self) -> bool:
        """Whether several λ are tried before training."""
        return self.lam == "auto" and self.loss in ("propml", "power")

    def stages(self) -> list[Stage]:
        """The stages of training, in order: one, or CDCR's two."""
        cuts = [0, self.epochs] if self.curriculum == "none" else [0, self.warmup_epochs, self.epochs]
        return [
            Stage(first, last, max(self.schedule_epochs or 0, last - first), selects=first > 0)
            for first, last in pairwise(cuts)
        ]

    def differs_from(self, other: Recipe) -> list[str]:
        """The settings in which two recipes differ, so that one cannot go on where the other stopped."""
        names = [field.name for field in fields(self) if field.name not in WATCHING]
        return [name for name in names if getattr(self, name) != getattr(other, name)]


KINDS = get_type_hints(Recipe)
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def _check_kind(name: str, value: Any, kind: Any) -> None:
    """Refuse a value that is not what the annotation of its setting says."""
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise ValueError(f"{name} is {value!r}; choose one of {', '.join(get_args(kind))}")
        return
    parts = get_args(kind) or (kind,)
    if not any(_is_of(value, part) for part in parts):
        told = [WORDS[part] if part in WORDS else get_args(part)[0] for part in parts if part is not NoneType]
        raise ValueError(f"{name} is {value!r}; give {' or '.join(told)}")


def _is_of(value: Any, kind: Any) -> bool:
    """A whole number is a number too; true and false are none, though Python counts with them."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    return isinstance(value, float | int if kind is float else kind) and (kind is bool or not isinstance(value, bool))


DEFAULT = Recipe()

# The methods of the paper's vision tables, as what they change of the recipe.
METHODS: dict[str, dict[str, Any]] = {
    "BCE": {"loss": "bce"},
    "ASL": {"loss": "asl"},
    "Query2Label": {"loss": "asl", "head": "query2label", "gamma_negative": 2.0, "clip": 0.0},
    "CDCR": {"loss": "bce", "curriculum": "cdcr"},
    "CDCR, by difficulty": {"loss": "bce", "curriculum": "cdcr-difficulty"},
    "ProPML": {"loss": "propml"},
    "ProPaLL": {"loss": "propall"},
    "Power mean": {"loss": "power"},
    "Unbiased": {"loss": "unbiased"},
}


def write_recipe(path: Path, recipe: Recipe) -> None:
    """Write a recipe as JSON, one setting a line."""
    write_whole(path, (json.dumps(asdict(recipe), indent=1) + "\n").encode())


def read_recipe(path: Path) -> Recipe:
    """The recipe that :func:`write_recipe` wrote."""
    return recipe_from(json.loads(Path(path).read_text(encoding="utf-8")), path)


def recipe_from(settings: dict[str, Any], where: Any) -> Recipe:
    """A recipe from plain values; settings that this version does not know are named."""
    known = {field.name for field in fields(Recipe)}
    if unknown := sorted(settings.keys() - known):
        raise ValueError(f"{where} has settings that this version does not know: {', '.join(unknown)}")
    return replace(DEFAULT, **settings)

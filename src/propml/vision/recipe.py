"""How a network is trained on images: one dataclass, of which the command line's options and the TOML's keys are made.

There are three recipes. ``VisionRecipe()`` starts from pretrained weights, trains a head on frozen features, then
fine-tunes the whole network and keeps it only where held-out candidates favour it. ``RECIPES["paper"]`` is the released
configuration. ``RECIPES["scratch"]`` is for random weights. Even the paper's recipe differs from the released code:

- λ is chosen on held-out candidates, epoch and weights too; the paper chose all three on test labels.
- The average of the weights warms up. At a constant 0.9997 the random first weights still weigh 31 % after the paper's
  3950 steps on VOC; ``ema_warmup=False`` does that.
- Losses are means over images. Some released codes sum; under Adam that only rescales the weight decay.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from propml.atomic_files import write_whole
from propml.messages import former_names, renamed_argument

# These change what is watched, not what is learned, so that a run may go on with other values.
WATCHING = ("eval_every", "look_every", "checkpoint_seconds", "compile")
# How λ is chosen, of which there were others before: raise it with every change, so that stored results are told apart.
LAM_RULE = 4
# What settings were called before: files may still say so, and the keys of stored results do.
FORMER = {"lr": "learning_rate"}
IMAGES, MACHINE = "Images", "Machine"  # panels of the help that have other options, too


class Stage(NamedTuple):
    """Some epochs with an optimiser and a learning-rate schedule of their own."""

    first: int
    last: int  # not included
    schedule_epochs: int  # how long the one-cycle schedule would take to its end; the stage may stop before
    selects: bool  # whether only candidates that the network finds plausible are learned from (CDCR's second stage)


def _panel(name: str) -> Callable[..., Any]:
    """What describes the settings of one panel of the command line's help."""

    def setting(default: Any, text: str, *flags: str, unset: str | None = None) -> Any:
        return field(default=default, metadata={"panel": name, "help": text, "flags": flags, "unset": unset})

    return setting


_images, _network, _loss = map(_panel, (IMAGES, "Network", "Loss"))
_training, _choice, _machine = map(_panel, ("Training", "Choice", MACHINE))


@dataclass(frozen=True)
class VisionRecipe:
    """The settings of one training run; the text beside each is its documentation, here and in the command's help.

    Examples
    --------
    >>> VisionRecipe(loss="bce", epochs=20).stages()
    [Stage(first=0, last=20, schedule_epochs=20, selects=False)]
    """

    size: int | None = _images(None, "Side in pixels; images are resized to a square.", unset="as the weights want it")
    noise: float | None = _images(
        None,
        "Make candidates: flip each label that is not true with this probability (paper: 0.1, 0.2, 0.4).",
        unset="the images' own candidates, or else their true labels",
    )
    backbone: str = _network("tf_efficientnet_lite3", "A model of timm, such as resnet50; small_cnn for thumbnails.")
    weights: str | None = _network(
        "auto", "Initial weights: pretrained (from timm), a file, or none (random). auto: pretrained if there are any."
    )
    tune: Literal["auto", "all", "head", "at-once"] = _network(
        "auto",
        "What to train. head: a linear head on frozen features. all: that head, then the whole network, which is kept "
        "only if held-out candidates clearly favour it. at-once: the whole network from the start, as in the paper. "
        "auto: all, but at-once for random weights, query2label, cdcr and --select last.",
    )
    head: Literal["linear", "query2label"] = _network("linear", "linear or query2label.")
    head_width: int = _network(2048, "Width of query2label.")
    head_feedforward: int | None = _network(None, "Width of its inner layers.", unset="four times as wide")
    loss: Literal["propml", "bce", "asl", "propall", "power", "unbiased"] = _loss(
        "propml", "propml, bce, asl, propall, power or unbiased."
    )
    lam: float | Literal["auto"] = _loss(
        "auto", "λ, the weight of excluded labels; auto: for propml and power the best on held-out candidates, else 1."
    )
    lam_epochs: int | None = _loss(None, "With --tune at-once: epochs for each λ.", unset="a third of the epochs")
    order: float = _loss(0.5, "For power: 0 is bce, 1 is propml.")
    flip_rate: float | None = _loss(None, "For unbiased: the noise, if you know it.", unset="estimated")
    gamma_positive: float = _loss(0.0, "For asl: focusing exponent of candidates.")
    gamma_negative: float = _loss(4.0, "For asl: focusing exponent of excluded labels; Query2Label has 2.")
    clip: float = _loss(0.05, "For asl: probability margin; Query2Label has 0.")
    curriculum: Literal["none", "cdcr", "cdcr-difficulty"] = _loss(
        "none", "cdcr or cdcr-difficulty: learn from candidates that the network believes. Use --loss bce."
    )
    warmup_epochs: int = _loss(2, "For cdcr: first epochs, on all candidates; part of --epochs.")
    confidence: float = _loss(0.6, "For cdcr: least probability of a candidate to learn from it.")
    head_epochs: int = _training(30, "Epochs of the head on frozen features; the best one is kept.")
    epochs: int = _training(6, "Epochs of the whole network.")
    batch_size: int = _training(64, "Images per step, over all GPUs.")
    optimiser: Literal["adam", "adamw"] = _training("adamw", "adam (the paper's, decay in the gradient) or adamw.")
    learning_rate: float = _training(1e-4, "Highest rate of the one-cycle schedule.", "--learning-rate", "--lr")
    layer_decay: float = _training(0.75, "Each layer's learning rate as a share of the next layer's; 1: all the same.")
    weight_decay: float = _training(0.05, "Weight decay, except on biases and norms.")
    pct_start: float = _training(0.2, "Share of the schedule during which the learning rate rises.")
    schedule_epochs: int | None = _training(None, "Length of the one-cycle; cdcr's and asl's was 80.", unset="epochs")
    augment: Literal["paper", "randaugment", "crop", "light", "none"] = _training(
        "randaugment",
        "paper (flip, cutout, RandAugment), randaugment (no cutout), crop (from scratch), light (flip), none.",
    )
    crop_size: int | None = _training(
        None, "Of crop: side in pixels. At 0.8 of the size things look as large as in whole images.", unset="size"
    )
    ema_decay: float = _training(0.999, "Decay of the averaged weights; 0: none.", "--ema")
    ema_warmup: bool = _training(True, "Let the average forget the first weights sooner than in the paper.")
    select: Literal["candidates", "oracle", "last"] = _choice(
        "candidates",
        "How to choose epoch and weights: candidates (of held-out images), last (no choice: train on all images to the "
        "end), oracle (true labels of the validation images; the paper used the test set).",
    )
    criterion: Literal["mAP", "average_precision"] = _choice(
        "mAP", "On held-out candidates: mAP (classes rank images) or average_precision (images rank labels)."
    )
    hold_out: float = _choice(0.1, "Share of the training images held out for these choices.")
    seed: int = _choice(0, "The same seed gives the same noise, order and network.")
    precision: Literal["auto", "float32", "bfloat16", "float16"] = _machine(
        "auto", "auto (16 bits on a GPU), bfloat16, float16 or float32."
    )
    compile: Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"] | None = _machine(
        None, "Mode of torch.compile: reduce-overhead (for a GPU), default, …"
    )
    eval_every: int = _machine(1, "Epochs between two evaluations; the last is always evaluated.")
    look_every: int = _machine(50, "Steps between two checks of the losses for NaN.")
    checkpoint_seconds: float = _machine(120.0, "Shortest time between two checkpoints.")

    def __post_init__(self) -> None:
        for name, kind in KINDS.items():
            _check_kind(name, getattr(self, name), kind)
        for name in ("size", "epochs", "head_epochs", "batch_size", "eval_every", "look_every", "head_width"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} is {value}; give at least 1")
        if self.crop_size is not None and (self.augment != "crop" or self.crop_size < 1):
            raise ValueError(f'crop_size is {self.crop_size}; give at least 1, and augment="crop" with it')
        for name in ("noise", "hold_out", "flip_rate", "ema_decay", "clip"):
            if not 0 <= (getattr(self, name) or 0) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it is a share of at least 0 and below 1")
        if not 0 < self.layer_decay <= 1:
            raise ValueError(f"layer_decay is {self.layer_decay}; it is a share above 0, 1 at most")
        if self.tune in ("head", "all"):
            for name, only in (("head", "linear"), ("curriculum", "none")):
                if getattr(self, name) != only:
                    raise ValueError(f'tune is "{self.tune}", which needs {name} = "{only}"; say tune = "at-once"')
            if self.select == "last":
                raise ValueError(f'tune is "{self.tune}", which chooses on images held out, and select is "last"')
        amounts = ("learning_rate", "weight_decay", "order", "gamma_positive", "gamma_negative", "seed")
        for name in (*amounts, *(() if self.lam == "auto" else ("lam",))):
            if not 0 <= (value := getattr(self, name)) < math.inf:
                raise ValueError(f"{name} is {value}; give a finite number of at least 0")
        if self.hold_out == 0 and (self.select == "candidates" or self.chooses_lam):
            what = "λ is" if self.chooses_lam else "epoch and weights are"
            raise ValueError(
                f'hold_out is 0 and {what} chosen on held-out images; hold some out, or set lam and select="last"'
            )
        if self.curriculum != "none" and not 0 < self.warmup_epochs < self.epochs:
            raise ValueError(f"CDCR warms up for {self.warmup_epochs} of {self.epochs} epochs; change warmup_epochs")

    @property
    def chooses_lam(self) -> bool:
        """Whether several λ are tried before training."""
        return self.lam == "auto" and self.loss in ("propml", "power")

    @property
    def side(self) -> int:
        """The size, where it is known; :func:`propml.vision.backbone.resolved` asks the backbone for it."""
        assert self.size is not None
        return self.size

    def stages(self) -> list[Stage]:
        """The stages of training, in order: one, or CDCR's two."""
        cuts = [0, self.epochs] if self.curriculum == "none" else [0, self.warmup_epochs, self.epochs]
        return [
            Stage(first, last, max(self.schedule_epochs or 0, last - first), selects=first > 0)
            for first, last in pairwise(cuts)
        ]

    def differs_from(self, other: VisionRecipe) -> list[str]:
        """The settings in which two recipes differ, so that one cannot go on where the other stopped."""
        names = [field.name for field in fields(self) if field.name not in WATCHING]
        return [name for name in names if getattr(self, name) != getattr(other, name)]


VisionRecipe.__init__ = renamed_argument("lr", "learning_rate")(VisionRecipe.__init__)  # type: ignore[method-assign]
KINDS = get_type_hints(VisionRecipe)
WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def _check_kind(name: str, value: Any, kind: Any) -> None:
    """Refuse a value that is not what the annotation of its setting says."""
    parts = (kind,) if get_origin(kind) is Literal else get_args(kind) or (kind,)
    choices = [choice for part in parts if get_origin(part) is Literal for choice in get_args(part)]
    # A whole number is a number too; true and false are none, though Python counts with them.
    types = tuple(float | int if part is float else part for part in parts if isinstance(part, type))
    is_flag = isinstance(value, bool) and bool not in types
    if value not in choices and (is_flag or not isinstance(value, types)):
        words = [WORDS[part] for part in parts if part in WORDS]
        told = f"give {' or '.join(words + choices)}" if words else f"choose one of {', '.join(choices)}"
        raise ValueError(f"{name} is {value!r}; {told}")


# What other recipes change of the default.
RECIPES: dict[str, dict[str, Any]] = {
    "default": {},
    # The released configuration: everything at once, from ImageNet's weights.
    "paper": {
        "size": 224,
        "backbone": "tresnet_l",
        "tune": "at-once",
        "warmup_epochs": 16,
        "epochs": 50,
        "optimiser": "adam",
        "learning_rate": 7.4134e-5,
        "layer_decay": 1.0,
        "weight_decay": 6.627e-7,
        "augment": "paper",
        "ema_decay": 0.9997,
    },
    # For random weights: of what was tried on VOC2007 at 160 pixels the one that learned fastest (paper/vision.toml).
    "scratch": {
        "weights": None,
        "tune": "at-once",
        "warmup_epochs": 20,
        "epochs": 60,
        "learning_rate": 2e-3,
        "layer_decay": 1.0,
        "augment": "crop",
        "ema_decay": 0.997,
    },
}
PAPER = VisionRecipe(**RECIPES["paper"])

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


def write_recipe(path: Path, recipe: VisionRecipe) -> None:
    """Write a recipe as JSON, one setting a line."""
    write_whole(path, (json.dumps(asdict(recipe), indent=1) + "\n").encode())


def read_recipe(path: Path) -> VisionRecipe:
    """The recipe that :func:`write_recipe` wrote."""
    return recipe_from(json.loads(Path(path).read_text(encoding="utf-8")), path)


def with_new_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a file, perhaps of an earlier version, under the names that they have now."""
    return {FORMER.get(name, name): value for name, value in settings.items()}


def with_former_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under their first names: those by which stored results are found again."""
    former = {new: old for old, new in FORMER.items()}
    return {former.get(name, name): value for name, value in settings.items()}


def recipe_from(settings: dict[str, Any], where: Any) -> VisionRecipe:
    """A recipe from plain values; settings that this version does not know are named."""
    settings = with_new_names(settings)
    known = {field.name for field in fields(VisionRecipe)}
    if unknown := sorted(settings.keys() - known):
        raise ValueError(f"{where} has settings that this version does not know: {', '.join(unknown)}")
    # Files of versions that trained everything at once do not say so.
    before = {} if "tune" in settings else {"tune": "at-once", "layer_decay": 1.0}
    return VisionRecipe(**{**before, **settings})


if not TYPE_CHECKING:
    __getattr__ = former_names(__name__, {"Recipe": "VisionRecipe"})

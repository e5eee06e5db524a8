"""Training runs that take a second: a small network on mosaics of digits."""

from pathlib import Path

import numpy as np
import torch

from propml.persistence import read_state
from propml.vision.backbone import import_vision
from propml.vision.checkpoint import load_network
from propml.vision.recipe import RECIPES, VisionRecipe
from propml.vision.sources import open_source
from propml.vision.training import train

SMALL = {
    **RECIPES["paper"],
    "weights": None,
    "size": 16,
    "backbone": "small_cnn",
    "epochs": 2,
    "batch_size": 32,
    "learning_rate": 3e-3,
    "augment": "none",
    "lam": 0.3,
    "eval_every": 1,
}


def mosaics(n_train=96, n_test=50):
    return (
        open_source("digits-mosaic", "train", n_samples=n_train),
        open_source("digits-mosaic", "test", n_samples=max(n_test, 1), random_state=1),
    )


def small_recipe(**changes):
    return VisionRecipe(**{**SMALL, **changes})


def run(out, recipe, *, n_train=96, n_test=50, **options):
    """Train on mosaics; all options of :func:`propml.vision.training.train`."""
    learned, judged = mosaics(n_train, n_test)
    return train(learned, judged if n_test else None, recipe, out, cache=None, verbose=False, **options)


def weights_of(folder):
    """The weights that a run selected, by name."""
    return {name: value.numpy() for name, value in load_network(folder).network.state_dict().items()}


def same_weights(one, other):
    """Whether two runs selected the same weights, and ended with the same, raw and averaged."""
    pairs = [(weights_of(one), weights_of(other))]
    ends = [read_state(Path(folder) / "last.safetensors")[1] for folder in (one, other)]
    pairs += [(ends[0][part], ends[1][part]) for part in ("network", "average")]
    return all(a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a) for a, b in pairs)


def tiny_network():
    """With a batch norm, whose state has integers in it."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))


def tiny_backbone(path):
    """A model of timm of 0.5 million random weights, which are written to a file; returns it and its state."""
    timm = import_vision("timm")
    torch.manual_seed(0)
    model = timm.create_model("test_resnet", pretrained=False, num_classes=7)
    state = model.state_dict()
    torch.save(state, path)
    return model, state

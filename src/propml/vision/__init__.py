"""Images: from the folder to the table. Sources, decoding, batches, augmentation, networks, training, prediction.

``features(paths)`` turns image files into a table with a pretrained backbone, for any classifier. Try this first.
``train(open_source("voc2007"), open_source("voc2007", "test"), VisionRecipe(noise=0.4), "run")`` does what
``propml vision train`` does; :mod:`~propml.vision.training` is the loop, written to be read from top to bottom.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from propml.messages import warn_renamed

if TYPE_CHECKING:
    from propml.vision.checkpoint import export_onnx, load_network
    from propml.vision.deep_features import features
    from propml.vision.predict import image_grid, predict_images
    from propml.vision.recipe import METHODS, RECIPES, VisionRecipe
    from propml.vision.sources import open_source
    from propml.vision.training import train

__all__ = [
    "METHODS",
    "RECIPES",
    "VisionRecipe",
    "export_onnx",
    "features",
    "image_grid",
    "load_network",
    "open_source",
    "predict_images",
    "train",
]

# Imported when first asked for: whoever decodes images needs no torch.
_LAZY = {
    "checkpoint": ("export_onnx", "load_network"),
    "deep_features": ("features",),
    "predict": ("image_grid", "predict_images"),
    "recipe": ("METHODS", "RECIPES", "VisionRecipe"),
    "sources": ("open_source",),
    "training": ("train",),
}


def __getattr__(name: str) -> Any:
    if name == "Recipe":
        warn_renamed("propml.vision.Recipe", "VisionRecipe")
        name = "VisionRecipe"
    for module, names in _LAZY.items():
        if name in names:
            return getattr(import_module(f"propml.vision.{module}"), name)
    raise AttributeError(f"module 'propml.vision' has no attribute {name!r}")

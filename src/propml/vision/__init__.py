"""Images: from the folder to the table. Sources, decoding, batches, augmentation, networks, training, prediction.

``features(paths)`` turns image files into a table with a pretrained backbone, for any classifier. Try this first.
``train(open_source("voc2007"), open_source("voc2007", "test"), VisionRecipe(noise=0.4), "run")`` does what
``propml vision train`` does; :mod:`~propml.vision.training` is the loop, written to be read from top to bottom.
"""

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
    "METHODS": "recipe",
    "RECIPES": "recipe",
    "VisionRecipe": "recipe",
    "export_onnx": "checkpoint",
    "features": "deep_features",
    "image_grid": "predict",
    "load_network": "checkpoint",
    "open_source": "sources",
    "predict_images": "predict",
    "train": "training",
}


def __getattr__(name: str) -> Any:
    if name == "Recipe":
        warn_renamed("propml.vision.Recipe", "VisionRecipe")
        name = "VisionRecipe"
    if name not in _LAZY:
        raise AttributeError(f"module 'propml.vision' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"propml.vision.{_LAZY[name]}"), name)

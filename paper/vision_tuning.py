"""What tuning adds to a head on frozen features, on VOC2007: settings side by side, one GPU, four minutes.

    PROPML_DATA=VOC python paper/vision_tuning.py WEIGHTS.safetensors [OUT]

Settings are to be compared by held-out candidates; the mAP by true labels of test images, of the frozen network and of
the selected one, is printed beside them. With OUT, features of all images are written there too, in single files of
half precision.
"""

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from propml import ProPMLClassifier
from propml.metrics import mean_average_precision
from propml.this_machine import choose_device
from propml.vision import Recipe, load_network, open_source, train
from propml.vision.deep_features import backbone_alone, compute_features
from propml.vision.image_cache import build_cache
from propml.vision.predict import probabilities
from propml.vision.training_data import draw_candidates

BACKBONE, SIZE, SECONDS = "tf_efficientnet_lite3", 280, 215
SETTINGS = {
    "lr 3e-4": {"lr": 3e-4},
    "lr 3e-4, crops": {"lr": 3e-4, "augment": "crop"},
    "lr 1e-3": {"lr": 1e-3},
    "lr 3e-4, flips": {"lr": 3e-4, "augment": "light"},
    "lr 3e-4, layer decay 0.9": {"lr": 3e-4, "layer_decay": 0.9},
}
began, device = time.time(), str(choose_device())
looks: list[float] = []  # when each epoch of a run had ended


def tell(text: str) -> None:
    print(f"{time.time() - began:6.1f} s  {text}", flush=True)


def look(_: object) -> None:
    looks.append(time.time())


def mean_precision(scores: np.ndarray) -> float:
    return 100 * mean_average_precision(test.truth, scores).value


weights, out = sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None
parts = []
for split in ("train", "test"):
    source = open_source("voc2007", split)
    parts.append(replace(source, items=build_cache(source, SIZE, None, show=False).images))
learned, test = parts
tell("decoded")
backbone = backbone_alone(BACKBONE, weights, SIZE)
X, new = (compute_features(backbone, part, batch_size=256, cache=None).X for part in parts)
tell("features")
if out is not None:
    for name, features, part in (("train", X, learned), ("test", new, test)):
        np.savez_compressed(out / f"{name}.npz", X=features.astype(np.float16), truth=part.truth)

for noise in (0.4, 0.1, 0.2):
    model = ProPMLClassifier(device=device).fit(X, draw_candidates(learned, noise, 0))
    odds = np.log(np.clip(model.predict_proba(new), 1e-6, 1 - 1e-6))
    tell(f"q {noise}: ProPMLClassifier on frozen features {mean_precision(odds):.2f}")
    for name, changes in SETTINGS.items():
        if time.time() - began > SECONDS - 45:
            sys.exit("time is over")
        recipe = Recipe(backbone=BACKBONE, weights=weights, size=SIZE, noise=noise, epochs=12, **changes)
        with tempfile.TemporaryDirectory() as folder:
            looks.clear()
            result = train(learned, None, recipe, Path(folder) / "run", show=False, on_epoch=look)
            frozen, best = (
                probabilities(load_network(Path(folder) / "run" / file), test.items, batch_size=256, device=device)
                for file in ("frozen.safetensors", "best.safetensors")
            )
        together = np.log(np.clip(best, 1e-6, 1)) + odds
        tell(
            f"q {noise}, {name}: λ {result.lam:g}, epoch {result.epoch} {result.weights}, "
            f"frozen {mean_precision(frozen):.2f}, selected {mean_precision(best):.2f}, "
            f"with the classifier {mean_precision(together):.2f}; "
            f"seconds an epoch {np.diff(looks)[-1]:.1f}, images/s {result.history[-1]['images_per_second']:.0f}"
        )
        for column in ("held-out mAP", "held-out average_precision"):
            rows = [f"{100 * e[f'{column} raw']:.2f}/{100 * e[f'{column} ema']:.2f}" for e in result.history]
            print(f"          {column} {' '.join(rows)}", flush=True)

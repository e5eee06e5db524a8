"""What tuning adds to a head on frozen features, on VOC2007, with ProPML and BCE: one GPU, some minutes.

    PROPML_DATA=VOC python paper/vision_tuning.py WEIGHTS.safetensors

Everything is chosen on held-out candidates; the mAP by true labels of test images, of the frozen network and of the
selected one, is printed beside what they were worth there.
"""

import itertools
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from propml.devices import choose_device
from propml.metrics import mean_average_precision
from propml.vision import Recipe, load_network, open_source, train
from propml.vision.image_cache import build_cache
from propml.vision.predict import probabilities

BACKBONE, SIZE, SECONDS = "tf_efficientnet_lite3", 280, 195
began, device = time.time(), str(choose_device())
looks: list[float] = []  # when each epoch of a run had ended


def tell(text: str) -> None:
    print(f"{time.time() - began:6.1f} s  {text}", flush=True)


def look(_: object) -> None:
    looks.append(time.time())


def mean_precision(scores: np.ndarray) -> float:
    return 100 * mean_average_precision(test.truth, scores).value


weights = sys.argv[1]
parts = []
for split in ("train", "test"):
    source = open_source("voc2007", split)
    parts.append(replace(source, items=build_cache(source, SIZE, None, show=False).images))
learned, test = parts
tell("decoded")

for noise, loss in itertools.product((0.4, 0.1, 0.2), ("propml", "bce")):
    if time.time() - began > SECONDS - 40:
        sys.exit("time is over")
    recipe = Recipe(backbone=BACKBONE, weights=weights, size=SIZE, noise=noise, loss=loss)
    with tempfile.TemporaryDirectory() as folder:
        looks[:] = [time.time()]
        result = train(learned, None, recipe, Path(folder) / "run", show=False, on_epoch=look)
        frozen, best = (
            probabilities(load_network(Path(folder) / "run" / file), test.items, batch_size=256, device=device)
            for file in ("frozen.safetensors", "best.safetensors")
        )
    tell(
        f"q {noise}, {loss}: λ {result.lam:g}, epoch {result.epoch} {result.weights}, "
        f"frozen {mean_precision(frozen):.2f}, selected {mean_precision(best):.2f}; "
        f"seconds of features and head, and of each epoch: {' '.join(f'{gap:.1f}' for gap in np.diff(looks))}"
    )
    for column in ("held-out mAP", "held-out average_precision"):
        rows = [f"{100 * e[f'{column} raw']:.2f}/{100 * e[f'{column} ema']:.2f}" for e in result.history]
        print(f"          {column} {' '.join(rows)}", flush=True)

"""What tuning adds to a head on frozen features, on VOC2007: epochs and settings side by side, one GPU, four minutes.

    PROPML_DATA=VOC python paper/vision_tuning.py WEIGHTS.safetensors [OUT]

The choice among settings goes by held-out candidates; true labels of test images are printed beside, to see what the
choice was worth. With OUT the features of all images are written there too, for ``vision_shallow.py``.
"""

import sys
import tempfile
import time
from pathlib import Path

from propml.vision import Recipe, open_source, train
from propml.vision.deep_features import backbone_alone, compute_features, write_features

BACKBONE, SIZE = "tf_efficientnet_lite3", 280
weights, out = sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None
parts = {split: open_source("voc2007", split) for split in ("train", "test")}
began = time.time()
if out is not None:
    network = backbone_alone(BACKBONE, weights, SIZE)
    for split, source in parts.items():
        write_features(out / f"{split}.npz", compute_features(network, source, batch_size=256), source)
    print(f"features: {time.time() - began:.0f} s", flush=True)
settings = {
    "head alone": {"tune": "head"},
    "default": {},
    "lr 3e-5": {"lr": 3e-5},
    "lr 3e-4": {"lr": 3e-4},
    "flip only": {"augment": "light"},
    "crops": {"augment": "crop"},
    "all layers alike": {"layer_decay": 1.0, "lr": 3e-5},
}
for noise in (0.4, 0.1):
    for name, changes in settings.items():
        if time.time() - began > 210:
            sys.exit("time is over")
        began_run = time.time()
        recipe = Recipe(backbone=BACKBONE, weights=weights, size=SIZE, noise=noise, **changes)
        with tempfile.TemporaryDirectory() as folder:
            result = train(parts["train"], parts["test"], recipe, Path(folder) / "run", show=False)
        seconds = time.time() - began_run
        print(f"\nq {noise}, {name}: λ {result.lam:g}, epoch {result.epoch} {result.weights}, {seconds:.0f} s")
        for entry in result.history:
            columns = ("held-out mAP", "held-out average_precision", "mAP")
            told = [f"{c} {100 * entry[f'{c} raw']:.2f} / {100 * entry[f'{c} ema']:.2f}" for c in columns]
            print(f"  epoch {entry['epoch']}: {', '.join(told)}", flush=True)

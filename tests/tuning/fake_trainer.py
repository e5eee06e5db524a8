"""A trainer with the signature of the real one, whose records are known."""

import json
import os
import signal
from unittest import mock

from propml.tuning.tasks import VisionTask
from propml.vision.recipe import write_recipe


def worth(learning_rate, epoch, epochs):
    """Best at a learning rate of 1e-4, and growing with the epochs."""
    return 1 - abs(learning_rate - 1e-4) * 2e3 - 0.05 * (epochs - epoch) / epochs


def train(source, validation, recipe, out, *, resume, device, cache, verbose, on_epoch):
    out.mkdir(parents=True, exist_ok=True)
    if recipe.weight_decay > 4e-4:
        raise ValueError(f"weight_decay is {recipe.weight_decay}; that is too much")
    history = json.loads((out / "history.json").read_text()) if resume else []
    if any(on_epoch(record) for record in history):
        return
    first = len(history) + 1
    write_recipe(out / "recipe.json", recipe)
    for name in ("last.safetensors", "best.safetensors"):
        (out / name).write_text("large")
    for epoch in range(first, recipe.epochs + 1):
        if recipe.batch_size == 13 and epoch == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        value = worth(recipe.learning_rate, epoch, recipe.epochs)
        record = {"epoch": epoch, "held-out mAP raw": value, "held-out mAP ema": value - 0.01, "mAP raw": value / 2}
        history.append({**record, "began": first})
        (out / "history.json").write_text(json.dumps(history))
        if on_epoch(history[-1]):
            return


class FakeVisionTask(VisionTask):
    def run(self, *arguments):
        with mock.patch("propml.tuning.tasks.train", train):
            super().run(*arguments)

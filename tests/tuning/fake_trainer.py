"""A trainer with the signature of the real one, whose records are known."""

import json
import os
import signal
import time

from propml.vision.recipe import write_recipe


def worth(lr, epoch, epochs):
    """Best at a learning rate of 1e-4, and growing with the epochs."""
    return 1 - abs(lr - 1e-4) * 2e3 - 0.05 * (epochs - epoch) / epochs


def train(source, validation, recipe, out, *, resume, device, cache, show, on_epoch):
    out.mkdir(parents=True, exist_ok=True)
    if recipe.weight_decay > 4e-4:
        raise ValueError(f"weight_decay is {recipe.weight_decay}; that is too much")
    history = json.loads((out / "history.json").read_text()) if resume else []
    for record in history:
        on_epoch(record)
    first = len(history) + 1
    write_recipe(out / "recipe.json", recipe)
    (out / "last.safetensors").write_text("large")
    for epoch in range(first, recipe.epochs + 1):
        if recipe.batch_size == 13 and epoch == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        value = worth(recipe.lr, epoch, recipe.epochs)
        record = {"epoch": epoch, "held-out mAP raw": value, "held-out mAP ema": value - 0.01, "mAP raw": value / 2}
        history.append({**record, "began": first})
        (out / "history.json").write_text(json.dumps(history))
        on_epoch(history[-1])
        time.sleep(0.5 if recipe.batch_size == 7 else 0)


def raises(*_, **__):
    raise KeyError("what")


def exits(*_, **__):
    os._exit(3)


def is_ended(*_, **__):
    signal.raise_signal(signal.SIGTERM)

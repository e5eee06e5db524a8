"""A trainer with the signature of the real one, whose curves are known."""

import csv
import os
import signal
import time

from propml.vision.recipe import write_recipe


def worth(lr, epoch, epochs):
    """Best at a learning rate of 1e-4, and growing with the epochs."""
    return 1 - abs(lr - 1e-4) * 2e3 - 0.05 * (epochs - epoch) / epochs


def train(source, validation, recipe, out, *, resume, device, cache, show):
    out.mkdir(parents=True, exist_ok=True)
    if recipe.weight_decay > 4e-4:
        raise ValueError(f"weight_decay is {recipe.weight_decay}; that is too much")
    first = 1
    if resume:
        with (out / "curves.csv").open() as file:
            first = 1 + max(int(row["epoch"]) for row in csv.DictReader(file))
    write_recipe(out / "recipe.json", recipe)
    (out / "last.safetensors").write_text("large")
    for epoch in range(first, recipe.epochs + 1):
        if recipe.batch_size == 13 and epoch == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        value = worth(recipe.lr, epoch, recipe.epochs)
        rows = [["epoch", "held-out mAP raw", "held-out mAP ema", "mAP raw", "began"]] if epoch == 1 else []
        rows.append([epoch, value, value - 0.01, value / 2, first])
        with (out / "curves.csv").open("a") as file:
            csv.writer(file).writerows(rows)
        time.sleep(0.5 if recipe.batch_size == 7 else 0)

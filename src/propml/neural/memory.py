"""How much memory a network in training takes, and how much there is."""

import itertools
import os

import torch

from propml.neural.recipe import Recipe
from propml.neural.rows import MASK_ROWS

# Weights, gradient, two moments, running mean, the evaluated copy and the best one.
COPIES = 7


def bytes_of_member(recipe: Recipe, n_features: int, n_labels: int, n_rows: int) -> int:
    """Bytes that one network of a recipe needs while it is trained."""
    widths = [n_features, *recipe.hidden, n_labels]
    weights = sum((a + 1) * b for a, b in itertools.pairwise(widths))
    # Activations of a batch, forward and backward, and of a block of 1024 rows that is judged.
    activations = (6 * recipe.batch_size + 2 * 1024) * (sum(widths[1:]) + 4 * n_labels)
    masks = min(n_rows, MASK_ROWS) * sum(recipe.hidden) if recipe.dropout else 0
    return 4 * (COPIES * weights + activations + masks)


def available_bytes(device: torch.device) -> int:
    """What a fleet may take: 80 % of the GPU's free memory, or half of the machine's."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(0.8 * free)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") // 2
    except (ValueError, OSError, AttributeError):  # not on every system
        return 4 * 2**30

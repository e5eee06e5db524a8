"""Seeds: what every corruption accepts as ``random_state``."""

from typing import TypeAlias

import numpy as np

RandomState: TypeAlias = int | np.random.Generator | None

# Mixed into every seed: data that was itself drawn with seed 0 must not meet the same numbers again in its corruption.
STREAM = int.from_bytes(b"corruption")


def generator(random_state: RandomState) -> np.random.Generator:
    """A NumPy generator from a seed, from a generator (used as it is) or from fresh entropy (``None``)."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is not None and (not isinstance(random_state, int | np.integer) or random_state < 0):
        raise ValueError(
            f"random_state is {random_state!r}; give a non-negative integer, a numpy.random.Generator, "
            f"or None for a different result each time"
        )
    return np.random.default_rng(None if random_state is None else [int(random_state), STREAM])


def seed_of(random_state: RandomState) -> int:
    """An integer seed: the one that was given, or one drawn from the generator."""
    rng = generator(random_state)
    return int(random_state) if isinstance(random_state, int | np.integer) else int(rng.integers(2**31))

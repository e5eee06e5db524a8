"""What a network of the fleet looks like and how it is trained."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """One kind of network: everything that all members of a stack have in common.

    Parameters
    ----------
    hidden : tuple of int
        Widths of the hidden layers; empty for a linear model.
    dropout, input_dropout : float
        Chance that a hidden unit, or a feature, is silent during a training step.
    epochs, batch_size, learning_rate, weight_decay
        Adam; the decay is decoupled and spares biases.
    ema : float
        Decay per step of the running mean of the weights, which is what is evaluated and kept; 0 keeps the raw ones.
    """

    hidden: tuple[int, ...] = (256, 256)
    dropout: float = 0.5
    input_dropout: float = 0.0
    epochs: int = 100
    batch_size: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    ema: float = 0.99

    def __post_init__(self) -> None:
        if any(width < 1 for width in self.hidden):
            raise ValueError(f"hidden is {self.hidden}; every layer needs at least one unit")
        for name in ("dropout", "input_dropout", "ema"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it lies in [0, 1)")
        for name in ("epochs", "batch_size", "learning_rate"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} is {getattr(self, name)}; it must be positive and finite")
        if not 0 <= self.weight_decay < float("inf"):
            raise ValueError(f"weight_decay is {self.weight_decay}; give a number of at least 0")

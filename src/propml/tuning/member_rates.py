"""A stack whose members have learning rates and weight decays of their own.

An Adam step is proportional to the learning rate. So all members take the step of rate 1 at once, in PyTorch's fused
kernel, and each goes only its share of the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from propml.neural.training import StackTrainer

__all__ = ["MemberRatesTrainer"]


class MemberRatesTrainer(StackTrainer):
    """A :class:`~propml.neural.training.StackTrainer` with one learning rate and one weight decay per setting.

    Parameters
    ----------
    learning_rates, weight_decays : sequence of float, one per setting
        They stand in the place of the recipe's.
    """

    def __init__(self, learning_rates: Sequence[float], weight_decays: Sequence[float], *args: Any, **kwargs: Any):
        self.learning_rates, self.weight_decays = tuple(learning_rates), tuple(weight_decays)
        super().__init__(*args, **kwargs)

    def _optimiser(self) -> torch.optim.Optimizer:
        device = self.stack.first.device
        rates = torch.tensor(self.learning_rates, device=device)
        kept = 1 - rates * torch.tensor(self.weight_decays, device=device)
        parameters: list[Tensor] = list(self.stack.parameters())
        decayed = [p is self.stack.first or p.shape[1] > 1 for p in parameters]  # biases are spared
        return _MemberAdamW(
            parameters,
            [self._for(p, rates) for p in parameters],
            [self._for(p, kept) if own else None for p, own in zip(parameters, decayed, strict=True)],
            lr=1.0,
            weight_decay=0.0,
            fused=True,
            capturable=device.type == "cuda",
        )

    def _for(self, parameter: Tensor, per_setting: Tensor) -> Tensor:
        """One number per setting, in the shape that multiplies a parameter of all members."""
        if parameter is self.stack.first:  # (folds, D, settings · width)
            return per_setting.repeat_interleave(self.stack.first_width).view(1, 1, -1)
        return per_setting.repeat(self.stack.shape.folds).view(-1, 1, 1)


class _MemberAdamW(torch.optim.AdamW):
    def __init__(self, parameters: list[Tensor], rates: list[Tensor], kept: list[Tensor | None], **kwargs: Any) -> None:
        super().__init__(parameters, **kwargs)
        self.parameters, self.rates, self.kept = parameters, rates, kept
        self.before = [torch.empty_like(parameter) for parameter in parameters]

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for parameter, old, kept in zip(self.parameters, self.before, self.kept, strict=True):
            if kept is not None:
                parameter.mul_(kept)
            old.copy_(parameter)
        result = super().step(closure)
        for parameter, old, rate in zip(self.parameters, self.before, self.rates, strict=True):
            torch.lerp(old, parameter, rate, out=parameter)
        return result

"""Hyperband with stacked models: all trials and folds of a rung train at once, and losers leave the stack.

λ, order, learning rate and weight decay differ between members of a stack. What cannot differ (layers, dropout, loss,
batch) parts the trials into stacks. A trial learns the same alone and among others who stay or leave: every fold has
its own streams of random numbers, and what a member has learned moves to the smaller stack with its optimiser.

The brackets are those of Li, Jamieson, DeSalvo, Rostamizadeh, Talwalkar: *Hyperband*, JMLR 2018; BOHB (Falkner, Klein,
Hutter, ICML 2018) runs them with proposals of a model, which here is Optuna's TPE. Optuna's own Hyperband, which prunes
single trials, has no brackets that start together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from propml.devices import choose_device
from propml.methods.propml import ProPMLClassifier
from propml.methods.propml_arguments import recipe_of
from propml.neural.criteria import get_criterion, get_loss
from propml.neural.fitting import fit_bins, fit_scaler
from propml.neural.fleet import available_bytes, bytes_of_member, judge
from propml.neural.network import Recipe
from propml.neural.rows import Rows, make_rows
from propml.neural.training import StackTrainer, padded

if TYPE_CHECKING:
    from propml.tuning.tasks import TableData

# The arguments of one trial.
Configuration: TypeAlias = Mapping[str, Any]

# One trial in ETA continues, for ETA times the epochs.
ETA = 3
# The most rungs of a bracket: with four, the shortest training has a 27th of the epochs.
MOST_RUNGS = 4
# What may differ between the members of a stack.
PER_MEMBER = ("lam", "order", "learning_rate", "weight_decay")
# Held-out rows are scored at most this often during a whole training.
LOOKS = 81
BROKEN = "its training loss is no number"
MEMORY = "out of memory: leave out the largest networks or batches, or use fewer workers"
# How Python and PyTorch report it.
MEMORY_WORDS = ("out of memory", "can't allocate memory", "not enough memory", "memory limit")


def levels(epochs: int) -> tuple[int, ...]:
    """All epochs at which trials are compared.

    >>> levels(81), levels(10), levels(1)
    ((3, 9, 27, 81), (1, 3, 10), (1,))
    """
    rungs = [epochs]
    while len(rungs) < MOST_RUNGS and rungs[0] >= ETA:
        rungs.insert(0, round(rungs[0] / ETA))
    return tuple(rungs)


def brackets_of(epochs: int) -> list[tuple[int, tuple[int, ...]]]:
    """The brackets of one round: how many trials start together, and the epochs at which they are compared.

    >>> brackets_of(9)
    [(9, (1, 3, 9)), (5, (3, 9)), (3, (9,))]
    """
    rungs = levels(epochs)
    return [
        (math.ceil(len(rungs) / (s + 1) * ETA**s), rungs[len(rungs) - 1 - s :]) for s in reversed(range(len(rungs)))
    ]


def bracket_at(epochs: int, position: int) -> tuple[int, tuple[int, ...]]:
    """The bracket of the trial at a position: how many trials are left of it from there, and its rungs."""
    places = [(size - begun, rungs) for size, rungs in brackets_of(epochs) for begun in range(size)]
    return places[position % len(places)]


def best_places(values: Sequence[float], others: Sequence[float] = ()) -> list[int]:
    """The places of the trials that continue: the best third of the finite values, rounded up.

    Of fewer than three, those continue that are in the best third of them and ``others``, earlier trials at that epoch.

    >>> best_places([0.5, 0.9, float("nan"), 0.7]), best_places([0.5], others=[0.8, 0.9, 0.7])
    ([1], [])
    """
    ranked = sorted((place for place, value in enumerate(values) if math.isfinite(value)), key=lambda p: -values[p])
    if len(ranked) >= ETA:
        return sorted(ranked[: math.ceil(len(ranked) / ETA)])
    pool = sorted([*(values[place] for place in ranked), *filter(math.isfinite, others)], reverse=True)
    return sorted(place for place in ranked if values[place] >= pool[math.ceil(len(pool) / ETA) - 1])


def structure(configuration: Configuration) -> tuple[tuple[str, Any], ...]:
    """What trials must have in common to train in one stack."""
    return tuple(sorted((name, value) for name, value in configuration.items() if name not in PER_MEMBER))


def reason(error: BaseException) -> str:
    """Why a trial failed, in one sentence."""
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError) or any(words in text.lower() for words in MEMORY_WORDS):
        return MEMORY
    if isinstance(error, ValueError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class DeviceTable:
    """A table on its device, ready for networks."""

    def __init__(self, data: TableData, device: str = "auto") -> None:
        self.data = data
        self.device = choose_device(device)
        states = data.candidates.to_matrix()
        self.criterion = get_criterion(data.criterion)
        scaler = fit_scaler(data.X, states, data.folds, self.criterion)
        scaled = scaler.transform(data.X)
        self.rows: Rows = make_rows(scaled, self.device, fit_bins(scaler, scaled, ProPMLClassifier().bins))
        self.candidates = torch.as_tensor(states, device=self.device)
        self.answers = torch.as_tensor(data.answers, device=self.device)
        lengths = torch.tensor([[len(fold.held)] for fold in data.folds], device=self.device)
        longest = int(lengths.max())
        self.held = torch.as_tensor(padded([fold.held for fold in data.folds], longest), device=self.device)
        self.held_weight = (torch.arange(longest, device=self.device) < lengths).float()

    def recipe(self, configuration: Configuration, epochs: int) -> Recipe:
        """The network that arguments of :class:`~propml.methods.propml.ProPMLClassifier` describe."""
        return recipe_of(ProPMLClassifier(**dict(structure(configuration))), self.data.n_rows, epochs=epochs)

    def fitting(self, recipe: Recipe) -> int:
        """How many trials, with all their folds, memory has room for."""
        of_member = bytes_of_member(recipe, self.rows.n_features, self.candidates.shape[1], len(self.candidates))
        return max(1, int(available_bytes(self.device) // (of_member * len(self.data.folds))))


class Stack:
    """Trials in training with all their folds, for ``epochs`` at most; they differ in :data:`PER_MEMBER` only."""

    def __init__(self, table: DeviceTable, configurations: Sequence[Configuration], epochs: int) -> None:
        self.table, self.configurations, self.epochs = table, list(configurations), epochs
        self.epoch = 0
        self.best = np.full(len(configurations), np.nan)
        self.broken = np.zeros(len(configurations), dtype=bool)  # whose training loss is no number
        name = configurations[0].get("loss", "power")
        loss, order = get_loss(name)
        defaults = {"lam": 1.0, "order": order} if name == "power" else {"lam": 1.0}
        self.trainer = MemberRatesTrainer(
            [float(each.get("learning_rate", 1e-3)) for each in configurations],
            [float(each.get("weight_decay", 0.0)) for each in configurations],
            table.rows,
            table.candidates,
            table.data.folds,
            table.recipe(configurations[0], epochs),
            [{key: float(each.get(key, value)) for key, value in defaults.items()} for each in configurations],
            (1,),
            loss,
        )
        if table.device.type == "cuda":
            self.trainer.capture()

    def __len__(self) -> int:
        return len(self.configurations)

    def train_to(self, epoch: int, stop: Callable[[], bool] = lambda: False) -> None:
        """Train up to an epoch, unless ``stop`` says so between two of them."""
        here, every = self.table, max(1, self.epochs // LOOKS)
        broken = torch.zeros(len(self) * len(here.data.folds), dtype=torch.bool, device=here.device)
        while self.epoch < epoch and not stop():
            broken |= ~torch.isfinite(self.trainer.epoch())
            self.epoch += 1
            if self.epoch % every and self.epoch < epoch:
                continue
            stack = self.trainer.refresh_averaged()
            losses = judge(stack, here.rows, here.answers, here.held, here.held_weight, here.criterion)
            # Where the training loss is not a number, neither is the value: the order of the labels means nothing.
            losses = torch.where(broken, torch.nan, losses).view(-1, len(self)).mean(dim=0)
            values = here.data.value(losses.double().cpu().numpy())
            self.broken |= np.isnan(values)
            self.best = np.where(self.broken, np.nan, np.fmax(self.best, values))

    def narrowed(self, places: Sequence[int]) -> Stack:
        """The stack of some of its trials, each exactly where it was."""
        chosen = list(places)
        small = Stack(self.table, [self.configurations[place] for place in chosen], self.epochs)
        small.epoch, small.best = self.epoch, self.best[chosen]
        old, new = self.trainer, small.trainer
        new.steps_done = old.steps_done

        def members(values: Tensor, parameter: Tensor) -> Tensor:
            if parameter is old.stack.first:  # (folds, D, settings · width)
                return values.unflatten(2, (len(self), -1))[:, :, chosen].flatten(2)
            return values.unflatten(0, (-1, len(self)))[:, chosen].flatten(0, 1)

        before = list(old.stack.parameters())
        with torch.no_grad():
            for parameter, target in zip(before, new.stack.parameters(), strict=True):
                target.copy_(members(parameter, parameter))
                moments = new.optimiser.state[target]
                for name, value in old.optimiser.state[parameter].items():
                    kept = members(value, parameter) if value.ndim else value
                    # In place, since a CUDA graph reads these very tensors.
                    moments.setdefault(name, torch.empty_like(kept)).copy_(kept)
            for parameter, mean, own in zip(before, old.mean, new.mean, strict=bool(old.mean)):
                own.copy_(members(mean, parameter))
        for kind in ("order_generators", "input_generators", "mask_generators"):
            for generator, other in zip(getattr(new, kind), getattr(old, kind), strict=True):
                generator.set_state(other.get_state())
        return small


class Rung:
    """Trials that are compared with each other: one stack for each structure among them, or as few as memory allows.

    A trial that cannot be trained fails by itself: its value is NaN, and ``why`` has the reason.
    """

    def __init__(self, table: DeviceTable, configurations: Sequence[Configuration], epochs: int) -> None:
        self.table, self.configurations, self.epochs = table, list(configurations), epochs
        self.why: dict[int, str] = {}
        self.stacks: dict[tuple[int, ...], Stack] = {}  # by the places of their trials among all
        alike: dict[Any, list[int]] = {}
        for place, configuration in enumerate(configurations):
            alike.setdefault(structure(configuration), []).append(place)
        self.waiting = [tuple(places) for places in alike.values()]  # to be stacks

    def train_to(self, epoch: int, stop: Callable[[], bool] = lambda: False) -> np.ndarray:
        """The values ``(n_trials,)`` after so many epochs: the best that a trial has reached until then."""
        self.waiting = [*self.stacks, *self.waiting]
        trained: dict[tuple[int, ...], Stack] = {}
        while self.waiting:
            places = self.waiting.pop(0)
            stack = self.stacks.pop(places, None)  # one that fails is gone, with its memory
            try:
                if stack is None:
                    fits = self.table.fitting(self.table.recipe(self.configurations[places[0]], self.epochs))
                    if fits < len(places):
                        self.waiting[:0] = [places[:fits], places[fits:]]
                        continue
                    stack = Stack(self.table, [self.configurations[place] for place in places], self.epochs)
                stack.train_to(epoch, stop)
                trained[places] = stack
            except Exception as error:  # one bad trial must not take its rung with it
                if len(places) > 1:  # find the bad trial; and half a stack may fit where a whole one does not
                    half = len(places) // 2
                    self.waiting[:0] = [places[:half], places[half:]]
                else:
                    self.why[places[0]] = reason(error)
        self.stacks = trained
        values = np.full(len(self.configurations), np.nan)
        for places, stack in self.stacks.items():
            values[list(places)] = stack.best
            for place in np.array(places)[stack.broken]:
                self.why[int(place)] = f"{BROKEN} by epoch {stack.epoch}"
        return values

    @property
    def epoch(self) -> int:
        """How far all of them have trained."""
        return min((stack.epoch for stack in self.stacks.values()), default=0)

    def keep(self, places: Sequence[int]) -> None:
        """Only these trials go on; the others stop here and now."""
        stacks = {}
        for group, stack in self.stacks.items():
            staying = [i for i, place in enumerate(group) if place in places]
            if staying:
                whole = len(staying) == len(group)
                stacks[tuple(group[i] for i in staying)] = stack if whole else stack.narrowed(staying)
        self.stacks = stacks


class MemberRatesTrainer(StackTrainer):
    """A trainer with one learning rate and one weight decay per setting, in the place of the recipe's.

    An Adam step is proportional to the learning rate. So all members take the step of rate 1 at once, in PyTorch's
    fused kernel, and each goes only its share of the way.
    """

    def __init__(self, learning_rates: Sequence[float], weight_decays: Sequence[float], *args: Any, **kwargs: Any):
        self.learning_rates, self.weight_decays = tuple(learning_rates), tuple(weight_decays)
        super().__init__(*args, **kwargs)

    def _optimiser(self) -> torch.optim.Optimizer:
        parameters: list[Tensor] = list(self.stack.parameters())
        device = self.stack.first.device
        rates = torch.tensor(self.learning_rates, device=device)
        shrinkage = 1 - rates * torch.tensor(self.weight_decays, device=device)
        decayed = [(p, self._for(p, shrinkage)) for p in parameters if p is self.stack.first or p.shape[1] > 1]
        moves = [(p, torch.empty_like(p), self._for(p, rates)) for p in parameters]

        @torch.no_grad()
        def before(*_: Any) -> None:
            for parameter, factor in decayed:  # biases are spared
                parameter.mul_(factor)
            for parameter, old, _rate in moves:
                old.copy_(parameter)

        @torch.no_grad()
        def after(*_: Any) -> None:
            for parameter, old, rate in moves:
                torch.lerp(old, parameter, rate, out=parameter)

        capturable = device.type == "cuda"
        optimiser = torch.optim.AdamW(parameters, lr=1.0, weight_decay=0.0, fused=True, capturable=capturable)
        optimiser.register_step_pre_hook(before)
        optimiser.register_step_post_hook(after)
        return optimiser

    def _for(self, parameter: Tensor, per_setting: Tensor) -> Tensor:
        """One number per setting, in the shape that multiplies a parameter of all members."""
        if parameter is self.stack.first:  # (folds, D, settings · width)
            return per_setting.repeat_interleave(self.stack.first_width).view(1, 1, -1)
        return per_setting.repeat(self.stack.shape.folds).view(-1, 1, 1)

"""A rung of Hyperband as one stacked model: all its trials and folds train at once, and losers leave the stack.

λ, order, learning rate and weight decay differ between members of a stack. What cannot differ (layers, dropout, loss,
batch) parts the trials into stacks; the search proposes trials so that few stacks suffice, see
:data:`propml.tuning.searching.PER_STRUCTURE`.

A trial learns the same whether it trains alone or among others, and whether others leave or not: every fold has its own
streams of random numbers, and what a member has learned moves to the smaller stack with its optimiser.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from propml.losses.named import get_loss
from propml.methods.propml import ProPMLClassifier
from propml.methods.propml_arguments import recipe_of
from propml.neural.criteria import get_criterion
from propml.neural.fitting import fit_bins, fit_scaler
from propml.neural.fleet import judge
from propml.neural.memory import available_bytes, bytes_of_member
from propml.neural.recipe import Recipe
from propml.neural.rows import Rows, make_rows
from propml.neural.training import padded
from propml.this_machine import choose_device
from propml.tuning.member_rates import MemberRatesTrainer
from propml.tuning.objective import TableData
from propml.tuning.reasons import reason

__all__ = ["PER_MEMBER", "Networks", "Rung", "Stack", "structure"]

Configuration = Mapping[str, Any]

# What may differ between the members of a stack.
PER_MEMBER = ("lam", "order", "learning_rate", "weight_decay")
# Held-out rows are looked at so often at most in a whole training.
LOOKS = 81


def structure(configuration: Configuration) -> tuple[tuple[str, Any], ...]:
    """What trials must have in common to train in one stack."""
    return tuple(sorted((name, value) for name, value in configuration.items() if name not in PER_MEMBER))


class Networks:
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

    def recipe(self, configuration: Configuration, epochs: int) -> Recipe:
        """The network that arguments of :class:`~propml.methods.propml.ProPMLClassifier` describe."""
        arguments = {name: value for name, value in configuration.items() if name not in PER_MEMBER}
        return recipe_of(ProPMLClassifier(**arguments), self.data.n_rows, epochs=epochs)

    def fitting(self, recipe: Recipe) -> int:
        """How many trials, with all their folds, memory has room for."""
        each = bytes_of_member(recipe, self.rows.n_features, self.candidates.shape[1], len(self.candidates))
        return max(1, int(available_bytes(self.device) // (each * len(self.data.folds))))


class Stack:
    """Trials of one structure in training, with all their folds.

    Parameters
    ----------
    networks : Networks
    configurations : sequence of mappings
        They differ in :data:`PER_MEMBER` only.
    epochs : int
        The whole budget.
    """

    def __init__(self, networks: Networks, configurations: Sequence[Configuration], epochs: int) -> None:
        self.networks, self.configurations, self.epochs = networks, list(configurations), epochs
        self.recipe = networks.recipe(configurations[0], epochs)
        self.epoch = 0
        self.best = np.full(len(configurations), np.nan)
        self.best_epoch = np.zeros(len(configurations), dtype=np.int64)
        self.broken = np.zeros(len(configurations), dtype=bool)  # whose training loss is no number
        self.trainer = self._trainer()
        if self.trainer.candidates.device.type == "cuda":
            self.trainer.capture()
        held = [fold.held for fold in networks.data.folds]
        longest = max(map(len, held))
        self._held = torch.as_tensor(padded(held, longest), device=networks.device)
        lengths = torch.tensor([[len(rows)] for rows in held], device=networks.device)
        self._counted = (torch.arange(longest, device=networks.device) < lengths).float()

    def _trainer(self) -> MemberRatesTrainer:
        first = self.configurations[0]
        name = first.get("loss", "power")
        loss, order = get_loss(name)
        settings = []
        for each in self.configurations:
            own = {"lam": float(each.get("lam", 1.0))}
            settings.append({**own, "order": float(each.get("order", order))} if name == "power" else own)
        return MemberRatesTrainer(
            [float(each.get("learning_rate", 1e-3)) for each in self.configurations],
            [float(each.get("weight_decay", 0.0)) for each in self.configurations],
            self.networks.rows,
            self.networks.candidates,
            self.networks.data.folds,
            self.recipe,
            settings,
            (1,),
            loss,
        )

    def __len__(self) -> int:
        return len(self.configurations)

    def train_to(self, epoch: int, stop: Callable[[], bool] = lambda: False) -> None:
        """Train up to an epoch, unless ``stop`` says so between two of them."""
        every = max(1, self.epochs // LOOKS)
        broken = torch.zeros(len(self) * len(self.networks.data.folds), dtype=torch.bool, device=self.networks.device)
        while self.epoch < epoch and not stop():
            broken |= ~torch.isfinite(self.trainer.epoch())
            self.epoch += 1
            if self.epoch % every == 0 or self.epoch == epoch:
                self._look(broken)

    def _look(self, broken: Tensor) -> None:
        networks = self.networks
        stack = self.trainer.refresh_averaged()
        losses = judge(stack, networks.rows, networks.answers, self._held, self._counted, networks.criterion)
        # Where the training loss is no number the order of the labels means nothing, and is not told apart from one.
        losses = torch.where(broken, torch.nan, losses).view(len(networks.data.folds), len(self)).mean(dim=0)
        values = networks.data.value(losses.double().cpu().numpy())
        self.broken |= np.isnan(values)
        better = ~self.broken & (np.isnan(self.best) | (values > self.best))
        self.best_epoch[better] = self.epoch
        self.best = np.where(better, values, self.best)
        self.best[self.broken] = np.nan

    def narrowed(self, places: Sequence[int]) -> Stack:
        """The stack of some of its trials, each exactly where it was."""
        state = self.state()
        chosen = torch.as_tensor(list(places))
        small = Stack(self.networks, [self.configurations[place] for place in places], self.epochs)
        settings, width = len(self), self.trainer.stack.first_width
        names = [name for name, _ in self.trainer.stack.named_parameters()]
        for kind in ("parameters", "mean", "exp_avg", "exp_avg_sq"):
            state[kind] = [
                _members(value, name == "first", settings, width, chosen)
                for name, value in zip(names, state[kind], strict=bool(state[kind]))
            ]
        state["best"] = state["best"][chosen]
        state["best_epoch"] = state["best_epoch"][chosen]
        small.load_state(state)
        return small

    def state(self) -> dict[str, Any]:
        """Everything that training goes on from, as tensors and numbers."""
        trainer = self.trainer
        moments = [trainer.optimiser.state[p] for p in trainer.stack.parameters()]
        started = all(moments)
        return {
            "epoch": self.epoch,
            "steps_done": trainer.steps_done,
            "best": torch.from_numpy(self.best.copy()),
            "best_epoch": torch.from_numpy(self.best_epoch.copy()),
            "parameters": [p.detach().cpu().clone() for p in trainer.stack.parameters()],
            "mean": [value.cpu().clone() for value in trainer.mean],
            "exp_avg": [own["exp_avg"].cpu().clone() for own in moments] if started else [],
            "exp_avg_sq": [own["exp_avg_sq"].cpu().clone() for own in moments] if started else [],
            "step": [own["step"].cpu().clone() for own in moments] if started else [],
            "generators": [generator.get_state() for generator in self._generators()],
        }

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` told."""
        trainer = self.trainer
        self.epoch, trainer.steps_done = int(state["epoch"]), int(state["steps_done"])
        self.best, self.best_epoch = state["best"].numpy().copy(), state["best_epoch"].numpy().copy()
        parameters = list(trainer.stack.parameters())
        for parameter, value in zip(parameters, state["parameters"], strict=True):
            parameter.copy_(value)
        for mean, value in zip(trainer.mean, state["mean"], strict=True):
            mean.copy_(value)
        for parameter, step, first, second in zip(
            parameters, state["step"], state["exp_avg"], state["exp_avg_sq"], strict=bool(state["step"])
        ):
            own = trainer.optimiser.state[parameter]
            for name, value in (("step", step), ("exp_avg", first), ("exp_avg_sq", second)):
                if name in own:  # a CUDA graph reads these very tensors
                    own[name].copy_(value)
                else:
                    own[name] = value.to(parameter.device).clone()
        for generator, value in zip(self._generators(), state["generators"], strict=True):
            generator.set_state(value)

    def _generators(self) -> list[torch.Generator]:
        trainer = self.trainer
        return [*trainer.order_generators, *trainer.input_generators, *trainer.mask_generators]


def _members(value: Tensor, is_first: bool, settings: int, width: int, chosen: Tensor) -> Tensor:
    """The part of a stacked parameter that belongs to some settings."""
    if is_first:  # (folds, D, settings · width)
        folds, features, _ = value.shape
        return value.view(folds, features, settings, width)[:, :, chosen].reshape(folds, features, -1)
    return value.view(-1, settings, *value.shape[1:])[:, chosen].reshape(-1, *value.shape[1:])


class Rung:
    """Trials that are compared with each other: one stack for each structure among them, or as few as memory allows.

    A trial that cannot be trained (its objective is no number, its network does not fit into memory, a value makes no
    sense) fails by itself: its value is NaN, and ``why`` has the reason.
    """

    def __init__(self, networks: Networks, configurations: Sequence[Configuration], epochs: int) -> None:
        self.networks, self.configurations, self.epochs = networks, list(configurations), epochs
        self.why: dict[int, str] = {}
        alike: dict[Any, list[int]] = {}
        for place, each in enumerate(configurations):
            alike.setdefault(structure(each), []).append(place)
        # A group waits as places until it is first trained; then it is a stack.
        self.groups: list[list[int]] = list(alike.values())
        self.stacks: dict[int, Stack] = {}

    def train_to(self, epoch: int, stop: Callable[[], bool] = lambda: False) -> np.ndarray:
        """The values ``(n_trials,)`` after so many epochs: the best that a trial has reached until then."""
        values = np.full(len(self.configurations), np.nan)
        waiting = list(self.groups)
        self.groups = []
        while waiting:
            places = waiting.pop(0)
            try:
                trained = self._train(places, epoch, stop)
            except Exception as error:  # one bad trial must not take its rung with it
                if len(places) > 1:  # who was it? and half a stack may fit where a whole one did not
                    half = len(places) // 2
                    waiting[:0] = [places[:half], places[half:]]
                else:
                    self.why[places[0]] = reason(error)
                continue
            if len(trained) < len(places):
                waiting.insert(0, places[len(trained) :])
            self.groups.append(trained)
            stack = self.stacks[trained[0]]
            values[trained] = stack.best
            for place in np.array(trained)[stack.broken]:
                self.why[int(place)] = f"its training loss is no number by epoch {stack.epoch}"
        return values

    def _train(self, places: list[int], epoch: int, stop: Callable[[], bool]) -> list[int]:
        """Train as many of these trials as fit, and say which; a stack that fails is let go, with its memory."""
        stack = self._stack(places)
        self.stacks.pop(places[0], None)
        stack.train_to(epoch, stop)
        self.stacks[places[0]] = stack
        return places[: len(stack)]

    def _stack(self, places: list[int]) -> Stack:
        if places[0] in self.stacks:
            return self.stacks[places[0]]
        recipe = self.networks.recipe(self.configurations[places[0]], self.epochs)
        fits = self.networks.fitting(recipe)
        return Stack(self.networks, [self.configurations[place] for place in places[:fits]], self.epochs)

    @property
    def epoch(self) -> int:
        """How far all of them have trained."""
        return min((stack.epoch for stack in self.stacks.values()), default=0)

    def best_epochs(self) -> np.ndarray:
        """When every trial was best, ``(n_trials,)``."""
        found = np.zeros(len(self.configurations), dtype=np.int64)
        for places in self.groups:
            found[places] = self.stacks[places[0]].best_epoch
        return found

    def keep(self, places: Sequence[int]) -> None:
        """Only these trials go on; the others stop here and now."""
        wanted = set(places)
        groups, stacks = [], {}
        for group in self.groups:
            stay = [place for place in group if place in wanted]
            if not stay:
                continue
            stack = self.stacks[group[0]]
            stacks[stay[0]] = stack if len(stay) == len(group) else stack.narrowed([group.index(p) for p in stay])
            groups.append(stay)
        self.groups, self.stacks = groups, stacks

    def save(self, path: str | Path) -> None:
        """Write where a rung of one trial stands."""
        torch.save(self._only().state(), path)

    def load(self, path: str | Path) -> int:
        """Go on from there; returns the epoch."""
        stack = self._stack(self.groups[0])
        stack.load_state(torch.load(path, weights_only=True))
        self.stacks[0] = stack
        return stack.epoch

    def _only(self) -> Stack:
        assert len(self.configurations) == 1, "a rung of several trials is not saved"
        return self.stacks[0]

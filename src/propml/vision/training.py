"""Training on images, top to bottom: :func:`fit` is the loop.

A run lives in one folder: ``recipe.json``, ``candidates.npz`` (what was learned from), ``lam.json`` (which λ were
tried), ``frozen.safetensors`` (the pretrained backbone with its head, which tuning starts from), ``curves.csv`` (epoch
0 is the frozen network), ``last.safetensors`` (the checkpoint), ``best.safetensors`` (the network that was selected)
and ``skipped.txt`` (images that could not be read).
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from propml.devices import cache_dir
from propml.messages import renamed_argument
from propml.progress import progress_bar
from propml.vision import evaluation
from propml.vision.backbone import input_of, make_network, resolved
from propml.vision.batches import Augment, augmented, step_generator
from propml.vision.cdcr import select_for_epoch
from propml.vision.checkpoint import TrainingState, load_network, save_network
from propml.vision.compiled_network import CompiledNetwork
from propml.vision.distributed import Process, choose_precision, join_processes
from propml.vision.head import learn_head, write_lam
from propml.vision.image_cache import OnError
from propml.vision.optimiser import WeightAverage, lams_to_try, make_objective, make_optimiser, one_cycle, set_rate
from propml.vision.recipe import VisionRecipe
from propml.vision.sources import ImageSource
from propml.vision.training_data import FROZEN, TrainingData, alone_in, open_run, prepare_data

SEARCHED_FROM = 2000  # steps
OnEpoch = Callable[[Mapping[str, Any]], bool | None]


@dataclass(frozen=True)
class TrainingResult:
    """What a run came to; numbers are those of the selected weights."""

    folder: Path
    lam: float
    epoch: int  # that was selected, from 1; 0: the head on frozen features
    weights: str  # "raw", "ema" (their running average) or "half" (the mean of that and of the frozen network)
    metrics: dict[str, float]  # on the validation images, by true labels; empty without such images
    held_out: dict[str, float]  # on the images held out, by their candidates; empty where none were
    history: list[dict[str, Any]]  # one entry per evaluated epoch, with all kinds of weights
    notes: list[str]  # sentences on true labels that are learned from, and on images that could not be read


@renamed_argument("show", "verbose")
def train(
    source_train: ImageSource,
    source_val: ImageSource | None,
    recipe: VisionRecipe,
    out: str | Path,
    *,
    resume: bool = False,
    device: str = "auto",
    cache: str | Path | None = "auto",
    on_error: OnError = "skip",
    tensorboard: bool = False,
    verbose: bool = True,
    tell: Callable[[str], object] | None = None,
    on_epoch: OnEpoch | None = None,
) -> TrainingResult:
    """Train one network as a recipe says; under ``torchrun``, in all its processes together.

    Parameters
    ----------
    source_train : ImageSource
        Images with candidates, or with true labels that ``recipe.noise`` makes candidates of.
    source_val : ImageSource or None
        Images with true labels, to report on. Only ``select="oracle"`` lets them choose anything.
    recipe : VisionRecipe
    out : path
        The folder of the run.
    resume : bool
        Go on with the run that was stopped in that folder. On the CPU it ends with the weights that the run would have
        had without the stop, bit by bit; on a GPU kernels may be chosen anew.
    device : str
    cache : path, "auto" or None
        Where decoded images are kept; ``"auto"``: in the user's cache, ``None``: in memory only.
    on_error : {"skip", "error"}
        What to do about an image that cannot be read.
    tensorboard : bool
        Also write curves for TensorBoard.
    verbose : bool
        Whether to show a progress bar.
    tell : callable, optional
        Called with each of the result's notes before training begins.
    on_epoch : callable, optional
        Called with the record of every evaluated epoch, as in ``curves.csv``; with ``resume`` first with the earlier
        ones. Training ends where it returns True. Of several processes the first one calls it, for all of them.
    """
    out, recipe = Path(out), resolved(recipe)
    folder = cache_dir() / "images" if cache == "auto" else None if cache is None else Path(cache)
    with join_processes(device) as here, alone_in(out, here):
        open_run(out, recipe, resume, here)
        options: dict[str, Any] = {"cache": folder, "on_error": on_error, "verbose": verbose}
        data, notes = prepare_data(source_train, source_val, recipe, out, here, **options)
        if tell is not None and here.is_first:
            for note in notes:
                tell(note)
        held_out = recipe.hold_out if recipe.select == "candidates" else 0.0
        learned = data.hold_out(held_out, recipe.seed)
        if recipe.tune == "at-once":
            lam = lam_for(data, recipe, out, here, verbose=verbose)
        else:
            lam = learn_head(learned, recipe, out, here, cache=cache, verbose=verbose)
        result = fit(learned, recipe, lam, out, here, tensorboard=tensorboard, verbose=verbose, on_epoch=on_epoch)
        return replace(result, notes=notes)


def fit(
    data: TrainingData,
    recipe: VisionRecipe,
    lam: float,
    out: Path,
    here: Process,
    *,
    tensorboard: bool = False,
    verbose: bool = True,
    on_epoch: OnEpoch | None = None,
) -> TrainingResult:
    """The training loop; it starts from the checkpoint in ``out``, or from the frozen network, if there is one."""
    precision = choose_precision(recipe.precision, here.device)
    torch.manual_seed(recipe.seed)
    network = make_network(recipe, len(data.label_names))
    if tunes := recipe.tune != "at-once":
        network.load_state_dict(load_network(out / FROZEN).network.state_dict())
    network.to(device=here.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    objective = make_objective(recipe, lam, data.candidates).to(here.device)
    scale = input_of(recipe.backbone)[1:]
    augment = Augment(*scale, kind=recipe.augment, crop_size=recipe.crop_size, dtype=precision.dtype)
    batches = data.batches(recipe, here)
    n_learned, full = len(data.learned), batches.batch_size
    # The fastest convolutions are worth a search of a minute or two in long trainings alone.
    torch.backends.cudnn.benchmark = recipe.epochs * len(batches) > SEARCHED_FROM
    model = here.wrap(CompiledNetwork(network, recipe.compile, full) if recipe.compile else network)

    state = TrainingState(network, *_average_and_optimiser(network, recipe), precision.scaler())
    judge = evaluation.Judge(data, recipe, augment, precision, here)
    epochs = 0 if recipe.tune == "head" else recipe.epochs
    checkpoint = out / "last.safetensors"

    def record(entry: dict[str, Any]) -> None:
        """Write the curves, and the network where it is the best so far."""
        state.history.append(entry)
        weights, worth = judge.better_weights(entry)
        before = state.best
        if before is None or (worth > before["worth"] and (before["epoch"] > 0 or judge.is_beyond_doubt(weights))):
            state.best = {"weights": weights, "worth": worth, "epoch": entry["epoch"]}
        if here.is_first:
            evaluation.write_curves(out / "curves.csv", state.history)
            if state.best is not before:
                chosen = judge.networks(state)[weights]
                card = {"lam": lam, "weights": weights, **entry}
                save_network(out / "best.safetensors", chosen, recipe, data.label_names, card)

    if tunes:
        frozen = {"epoch": 0, **judge.look(state)}
        judge.start_from(network)
    if checkpoint.exists():
        state.restore(checkpoint)
    elif tunes:
        record(frozen)

    def is_last(entry: Mapping[str, Any]) -> bool:
        return here.gather(bool(here.is_first and on_epoch is not None and on_epoch(entry)))[0]

    def save(after: float) -> None:
        """Where the last checkpoint is older than so many seconds; large networks take seconds to write."""
        whole = state.selected is None or state.step == 0  # what CDCR selected at the start of an epoch is not saved
        if here.is_first and whole and time.monotonic() - state.saved_at >= after:
            state.save(checkpoint)
            state.saved_at = time.monotonic()

    stopped = any(is_last(entry) for entry in state.history)
    steps_left = epochs * len(batches) - state.epoch * len(batches) - state.step
    curves = out / "tensorboard" if tensorboard and here.is_first else None
    with (
        progress_bar("training", steps_left, show=verbose and here.is_first) as bar,
        evaluation.tensorboard(curves) as add_to_board,
    ):
        for epoch in range(state.epoch, epochs):
            if stopped:
                break
            stage = next(stage for stage in recipe.stages() if stage.first <= epoch < stage.last)
            total = stage.schedule_epochs * len(batches)
            passed = (epoch - stage.first) * len(batches)
            rates = [one_cycle(passed + n, total, recipe.learning_rate, recipe.pct_start) for n in range(len(batches))]
            if state.step == 0 and epoch == stage.first > 0:  # CDCR's second stage starts from averaged weights
                network.load_state_dict(state.average.network.state_dict())
                state.average, state.optimiser = _average_and_optimiser(network, recipe)
            if stage.selects and (state.step == 0 or state.selected is None):
                state.selected = select_for_epoch(network, epoch, data, recipe, augment, precision, here)
            network.train()
            for layer in network.modules() if tunes else ():
                if isinstance(layer, nn.modules.batchnorm._BatchNorm):
                    layer.eval()  # statistics of batches would change the network that the head was learned for
            watch = evaluation.Watch(state, data.names, here, bar, checkpoint)
            # All randomness of a step comes from its number, so that nothing random needs to be saved.
            drawn = partial(step_generator, recipe.seed, epoch, rank=here.rank)
            for view, targets, index in augmented(
                batches.epoch(epoch, state.step), augment, drawn, here.device, first_step=state.step
            ):
                torch.manual_seed(drawn(state.step).initial_seed())  # dropout
                set_rate(state.optimiser, rates[state.step])

                with precision.autocast():
                    logits = model(view)
                weight, factor = here.true_images(n_learned - state.step * full * here.world, len(view))
                mask = None if state.selected is None else state.selected[index]
                loss = objective(logits.float(), targets, mask=mask, example_weight=weight) * factor

                state.scaler.scale(loss).backward()
                state.scaler.step(state.optimiser)
                state.scaler.update()
                state.optimiser.zero_grad(set_to_none=True)
                state.average.update()

                state.step += 1
                watch.saw(loss, index)
                if state.step % recipe.look_every == 0:
                    watch.look()
                    save(after=recipe.checkpoint_seconds)

            watch.look()
            losses, state.epoch, state.step, state.losses = state.losses, epoch + 1, 0, []
            last = epoch + 1 == epochs
            if (epoch + 1) % recipe.eval_every == 0 or last:
                entry = {"epoch": epoch + 1, "lr": rates[-1][0]}
                entry |= {"loss": sum(losses) / len(losses), "images_per_second": watch.rate, **judge.look(state)}
                add_to_board(entry)
                record(entry)
                stopped = is_last(entry)
            save(after=0.0 if last or stopped else recipe.checkpoint_seconds)
    here.wait()
    if recipe.compile:
        torch.compiler.reset()  # gives back the memory that captured steps keep, which the next network may need
    assert state.best is not None
    epoch, weights = state.best["epoch"], state.best["weights"]
    entry = next(entry for entry in state.history if entry["epoch"] == epoch)
    own = {name.removesuffix(f" {weights}"): value for name, value in entry.items() if name.endswith(weights)}
    held_out = {name.removeprefix("held-out "): own.pop(name) for name in list(own) if name.startswith("held-out ")}
    return TrainingResult(out, lam, epoch, weights, own, held_out, state.history, notes=[])


def _average_and_optimiser(network: nn.Module, recipe: VisionRecipe) -> tuple[WeightAverage, torch.optim.Optimizer]:
    rates = recipe.learning_rate, recipe.weight_decay, recipe.layer_decay
    average = WeightAverage(network, recipe.ema_decay, warmup=recipe.ema_warmup)
    return average, make_optimiser(network, recipe.optimiser, *rates)


def lam_for(data: TrainingData, recipe: VisionRecipe, out: Path, here: Process, *, verbose: bool = True) -> float:
    """The recipe's λ; where that is "auto", the best of several in short runs, which ``lam.json`` keeps."""
    if not recipe.chooses_lam:
        return lams_to_try(data.candidates, recipe)[0]
    path, trials = out / "lam.json", out / "lam"
    if path.exists():
        return float(json.loads(path.read_text(encoding="utf-8"))["lam"])
    epochs = recipe.lam_epochs or max(1, round(recipe.epochs / 3))
    short = replace(recipe, epochs=epochs, eval_every=epochs, curriculum="none")
    short = replace(short, select="candidates") if short.select == "last" else short
    split = data.hold_out(recipe.hold_out, recipe.seed)
    tried: list[dict[str, Any]] = []
    for lam in lams_to_try(data.candidates, recipe):
        result = fit(split, replace(short, lam=lam), lam, trials / f"{lam:g}", here, verbose=verbose)
        worth = result.metrics["mAP"] if short.select == "oracle" else result.held_out[recipe.criterion]
        tried.append({"lam": lam, "worth": worth, "held_out": result.held_out, "validation": result.metrics})
    best = max(tried, key=lambda entry: entry["worth"])["lam"]
    here.wait()
    if here.is_first:
        write_lam(path, best, recipe, tried)
        shutil.rmtree(trials, ignore_errors=True)  # the numbers are in lam.json, and networks are large
    return best

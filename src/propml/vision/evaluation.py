"""An eye on a run: how good its network is, by true labels and by candidates of images that it has not learned from;
its speed, a stop where a loss is not a number, and its curves as CSV and for TensorBoard.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from propml.extras import require
from propml.metrics import f1_scores, mean_average_precision, predict_threshold, predict_top_k
from propml.neural.criteria import average_precision_loss
from propml.progress import Bar
from propml.tables.text import write_csv
from propml.vision.batches import Augment, Batches
from propml.vision.checkpoint import TrainingState
from propml.vision.distributed import Precision, Process
from propml.vision.recipe import VisionRecipe
from propml.vision.training_data import TrainingData, ordered_batches

View = Callable[[Tensor, int], Tensor]


@torch.no_grad()
def score_images(
    network: nn.Module, batches: Batches, view: View, precision: Precision, here: Process, *, mirror: bool = False
) -> Tensor:
    """The logits of all images, float32 ``(n_images, n_labels)`` on the CPU, in the order of rows and in every process.

    ``view(images, step)`` makes of bytes what the network takes; with ``mirror`` they are means over an image and its
    mirror image.
    """
    was_training = network.training
    network.eval()
    here.share_buffers(network)
    rows, logits = [np.empty(0, dtype=np.int64)], []
    for step, (images, _, index) in enumerate(batches.epoch(0)):
        with precision.autocast():
            seen = view(images, step)
            views = (seen, seen.flip(3)) if mirror else (seen,)
            found = [network(each.contiguous(memory_format=torch.channels_last)).float() for each in views]
        rows.append(index.cpu().numpy())
        logits.append(torch.stack(found).mean(dim=0))
    network.train(was_training)
    mine = (np.concatenate(rows), torch.cat(logits).cpu().numpy() if logits else None)
    everyone = [part for part in here.gather(mine) if part[1] is not None]
    order = np.argsort(np.concatenate([part[0] for part in everyone]), kind="stable")
    return torch.from_numpy(np.concatenate([part[1] for part in everyone])[order])


def judge_by_truth(truth: Any, logits: Tensor) -> dict[str, float]:
    """mAP, CF1 and OF1, these at a probability of 0.5 and for the three most probable labels; fractions."""
    truth, scores = np.asarray(truth), logits.numpy()
    above = f1_scores(truth, predict_threshold(scores, 0.0))  # a logit of 0 is a probability of 0.5
    top = f1_scores(truth, predict_top_k(scores, min(3, scores.shape[1])))
    by_class = mean_average_precision(truth, scores)
    return {"mAP": by_class.value, "CF1": above.CF1, "OF1": above.OF1, "CF1@3": top.CF1, "OF1@3": top.OF1}


def judge_by_candidates(candidates: Tensor, logits: Tensor) -> dict[str, float]:
    """Both means of :func:`candidate_precisions`; one that has nothing to rank is left out."""
    found = {name: candidate_precisions(candidates, logits, name) for name in ("mAP", "average_precision")}
    return {name: float(own.mean()) for name, own in found.items() if len(own)}


def candidate_precisions(candidates: Tensor, logits: Tensor, criterion: str) -> Tensor:
    """Average precisions with candidates in the place of true labels, which a criterion is the mean of.

    For ``"mAP"`` there is one per class: how well it ranks the images; for ``"average_precision"`` one per image: how
    well it ranks the labels. Flips that do not depend on the image blur both and tilt neither: a label is a candidate
    with probability ρ + (1 − ρ) P(true), which rises with P(true). Classes or images that lack a candidate or an
    excluded entry have none. Logits of several networks ``(…, n_images, n_labels)`` have one row each.
    """
    if criterion == "mAP":
        candidates, logits = candidates.T, logits.mT
    ranked = _rankable(candidates)
    logits = logits[..., ranked, :]
    return 1 - average_precision_loss(logits, candidates[ranked].expand_as(logits))


def _rankable(candidates: Tensor) -> Tensor:
    """The rows that have both a candidate and an excluded entry."""
    return (candidates > 0).any(dim=1) & (candidates == 0).any(dim=1)


def check_judges(data: TrainingData, recipe: VisionRecipe) -> None:
    """Refuse images by which nothing can be judged, so that nobody learns of it after the training."""
    truth = None if data.validation is None else data.validation[1]
    if recipe.select == "oracle" and truth is None:
        raise ValueError('select is "oracle" and there are no validation images with true labels; give some')
    if truth is not None and not truth.any():
        raise ValueError(
            f"none of the {len(truth)} validation images has a true label, so that mAP is undefined; "
            f"give others, or leave them out (--validation none)"
        )
    by_class, candidates = recipe.criterion == "mAP", data.targets()[data.held_out]
    if recipe.select == "candidates" and not _rankable(candidates.T if by_class else candidates).any():
        raise ValueError(
            f"{len(candidates)} of {len(data.images)} images are held out, and no {'class' if by_class else 'image'} "
            f"has both a candidate and an excluded entry there; raise --hold-out, or use --select last with a --lam"
        )


class Judge:
    """Evaluates raw and averaged weights, and says which are better by the recipe's rule.

    Where a pretrained network is tuned, the mean of its weights before tuning and of the averaged ones is a third
    choice, "half": it forgets less of what it knew, and has learned less of the noise (Wortsman et al.: *Robust
    fine-tuning of zero-shot models*, CVPR 2022).

    It judges what ``propml vision predict`` gives: the mean over an image and its mirror image; but the networks of the
    paper's recipe, which train at once, by the image alone.
    """

    def __init__(
        self, data: TrainingData, recipe: VisionRecipe, augment: Augment, precision: Precision, here: Process
    ) -> None:
        check_judges(data, recipe)
        self.recipe, self.here, self.precision = recipe, here, precision
        self.plain: View = lambda images, step: augment.plain(images)
        targets, self.held_out, self.validation, self.truth = data.targets(), None, None, None
        self.candidates = targets[data.held_out]
        if len(data.held_out):
            self.held_out = ordered_batches(data.images, targets, recipe, here, data.held_out)
        if data.validation is not None:
            self.validation, self.truth = ordered_batches(*data.validation, recipe, here), data.validation[1]
        self.precisions: dict[str, Tensor] = {}  # of each held-out image, at the last look
        self.to_beat: Tensor | None = None  # those of the frozen network
        self.frozen: nn.Module | None = None

    def start_from(self, network: nn.Module) -> None:
        """Keep the frozen network, whose last look the tuned one has to beat."""
        self.frozen, self.to_beat = copy.deepcopy(network), self.precisions.get("raw")

    @torch.no_grad()
    def networks(self, state: TrainingState) -> dict[str, nn.Module]:
        """What there is to choose from: ``"raw"``, ``"ema"`` and ``"half"``."""
        found: dict[str, nn.Module] = {"raw": state.network}
        if self.recipe.ema_decay:
            found["ema"] = state.average.network
        if self.frozen is not None:
            found["half"] = copy.deepcopy(self.frozen)
            tuned = found.get("ema", state.network).state_dict()
            for name, value in found["half"].state_dict().items():
                if value.is_floating_point():
                    value.lerp_(tuned[name], 0.5)
        return found

    def look(self, state: TrainingState) -> dict[str, float]:
        """Columns such as ``"mAP raw"`` (true labels of validation images) and ``"held-out mAP ema"``."""
        found: dict[str, float] = {}
        for weights, network in self.networks(state).items():
            if self.held_out is not None:
                logits = self._score(network, self.held_out)
                self.precisions[weights] = candidate_precisions(self.candidates, logits, "average_precision")
                by_candidates = judge_by_candidates(self.candidates, logits)
                found |= {f"held-out {name} {weights}": value for name, value in by_candidates.items()}
            if self.validation is not None:
                logits = self._score(network, self.validation)
                found |= {f"{name} {weights}": value for name, value in judge_by_truth(self.truth, logits).items()}
        return found

    def _score(self, network: nn.Module, batches: Batches) -> Tensor:
        mirror = self.recipe.tune != "at-once"
        return score_images(network, batches, self.plain, self.precision, self.here, mirror=mirror)

    def is_beyond_doubt(self, weights: str) -> bool:
        """Whether the weights of the last look rank the candidates of held-out images better than the frozen network.

        By the paired difference of each image's average precision: its mean is above two of its standard errors.
        """
        if self.to_beat is None or self.recipe.select != "candidates":
            return True
        gain = (self.precisions[weights] - self.to_beat).double()
        return len(gain) > 1 and float(gain.mean()) > 2 * float(gain.std()) / len(gain) ** 0.5

    def better_weights(self, entry: dict[str, Any]) -> tuple[str, float]:
        """Raw, averaged or half-way, and what they are worth."""
        if self.recipe.select == "last":
            return "raw", float(entry["epoch"])
        column = "mAP" if self.recipe.select == "oracle" else f"held-out {self.recipe.criterion}"
        worth = {kind: entry[f"{column} {kind}"] for kind in ("raw", "ema", "half") if f"{column} {kind}" in entry}
        return max(worth.items(), key=lambda item: item[1])


class Watch:
    """Looks at the losses of an epoch now and then, tells the bar, and raises where one is not a finite number.

    ``names`` are those of the images; ``rate`` is images per second, in all processes together.
    """

    def __init__(self, state: TrainingState, names: list[str], here: Process, bar: Bar, checkpoint: Path) -> None:
        self.state, self.names, self.here, self.bar, self.checkpoint = state, names, here, bar, checkpoint
        self.pending: list[tuple[Tensor, Tensor]] = []
        self.images, self.started, self.rate = 0, time.perf_counter(), 0.0

    def saw(self, loss: Tensor, index: Tensor) -> None:
        """Take note of a step; nothing waits for it."""
        self.pending.append((loss.detach(), index))
        self.images += len(index) * self.here.world

    def look(self) -> None:
        """Fetch the losses of the steps since the last look; all processes look at the same steps."""
        if not self.pending:
            return
        own = torch.stack([loss for loss, _ in self.pending])
        losses = self.here.mean(own.clone())
        if not bool(losses.isfinite().all()):
            self._stop(losses, own)
        self.state.losses += losses.tolist()
        self.rate = self.images / max(time.perf_counter() - self.started, 1e-9)
        note = f"epoch {self.state.epoch + 1}  loss {self.state.losses[-1]:.4g}  {self.rate:.0f} images/s"
        self.bar.advance(len(self.pending), note)
        self.pending = []

    def _stop(self, losses: Tensor, own: Tensor) -> None:
        bad = int((~losses.isfinite()).nonzero()[0])
        step, rows = self.state.step - len(self.pending) + bad, self.pending[bad][1].tolist()
        more = f" and {len(rows) - 4} more" if len(rows) > 4 else ""
        named = "another process" if bool(own[bad].isfinite()) else ", ".join(self.names[i] for i in rows[:4]) + more
        kept = ". The last checkpoint is from before that step" if self.checkpoint.exists() else ""
        raise ValueError(
            f"the loss is {losses[bad].item()} in epoch {self.state.epoch + 1}, step {step + 1}, on the batch of "
            f"{named}; look at these images, lower learning_rate, or use precision float32{kept}"
        )


def write_curves(path: Path, history: Sequence[Mapping[str, Any]]) -> None:
    """Write one row per evaluated epoch; columns that only some epochs have are empty elsewhere."""
    columns = list(dict.fromkeys(name for entry in history for name in entry))
    cells = ([entry.get(name) for name in columns] for entry in history)
    write_csv(path, columns, ([f"{v:.6g}" if isinstance(v, float) else v for v in row] for row in cells))


@contextmanager
def tensorboard(folder: Path | None) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """What adds an epoch to the same curves in TensorBoard's format; without a folder it does nothing."""
    if folder is None:
        yield lambda entry: None
        return
    require("tensorboard", "tensorboard")
    with require("torch.utils.tensorboard", "tensorboard").SummaryWriter(str(folder)) as writer:

        def add(entry: Mapping[str, Any]) -> None:
            for name, value in entry.items():
                if name != "epoch":
                    writer.add_scalar(name.replace(" ", "/"), value, entry["epoch"])

        yield add

"""Several processes under ``torchrun``, one per GPU, or one process and none of this.

A step of all processes together is the step that one process would take with the whole batch: gradients are averaged
over the images that are really there, and in evaluation every image is scored once, whatever the number of processes.
Two things do depend on that number: batch norms see their own process's share, and each draws its own augmentation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True)
class Process:
    """This process among all: its device, its number, and how many there are."""

    device: torch.device
    rank: int = 0
    world: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this is the process that writes files and talks."""
        return self.rank == 0

    def wrap(self, network: nn.Module) -> nn.Module:
        """The network whose backward pass averages gradients over processes."""
        if self.world == 1:
            return network
        where = [self.device] if self.device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(network, device_ids=where, gradient_as_bucket_view=True)

    def batch_size(self, together: int) -> int:
        """This process's share of a batch."""
        if together % self.world:
            what = f"a batch of {together} images cannot be shared out among {self.world} processes"
            raise ValueError(f"{what}; give a multiple of {self.world}")
        return together // self.world

    def true_images(self, n_left: int, n_here: int) -> tuple[Tensor | None, float]:
        """Weights that leave out filling, and the factor that makes the mean over processes one over true images.

        There are ``n_here`` images in this step and ``n_left`` in the rest of the epoch. Process r has images r,
        r + world, … of the step, and filling comes last: only the last step of an epoch, and only with several
        processes, can have any.
        """
        true_here = len(range(self.rank, n_left, self.world))
        factor = n_here * self.world / min(n_left, n_here * self.world)
        if true_here >= n_here:
            return None, factor
        return (torch.arange(n_here, device=self.device) < true_here).float(), factor

    def share_buffers(self, network: nn.Module) -> None:
        """Give all processes the buffers of the first: each has seen other images in its batch norms."""
        if self.world > 1:
            for buffer in network.buffers():
                dist.broadcast(buffer, src=0)

    def gather(self, value: Any) -> list[Any]:
        """The value of every process, in their order."""
        if self.world == 1:
            return [value]
        everyone: list[Any] = [None] * self.world
        dist.all_gather_object(everyone, value)
        return everyone

    def mean(self, values: Tensor) -> Tensor:
        """The mean over processes; a NaN of one becomes everyone's."""
        if self.world > 1:
            dist.all_reduce(values)
            values /= self.world
        return values

    def wait(self) -> None:
        """Until all processes are here."""
        if self.world > 1:
            dist.barrier()


@contextmanager
def join_processes(device: str = "auto") -> Iterator[Process]:
    """Take part in what ``torchrun`` started, or be the only process; ``"auto"`` is a GPU of its own, else the CPU."""
    rank, local = (int(os.environ.get(name, 0)) for name in ("RANK", "LOCAL_RANK"))
    world = int(os.environ.get("WORLD_SIZE", 1))
    if device == "auto":
        device = f"cuda:{local}" if torch.cuda.is_available() else "cpu"
    here = Process(torch.device(device), rank, world)
    if here.device.type == "cuda":
        torch.cuda.set_device(here.device)
    joins = world > 1 and not dist.is_initialized()
    if joins:
        # This module's functions keep the group of the moment of its import as a default. DistributedDataParallel
        # imports it too late: gloo's threads would then outlive the group, and could abort a process that ends.
        import_module("torch.distributed.nn")
        # Decoding a large dataset for the first time is slow, and the others wait for it.
        dist.init_process_group("nccl" if here.device.type == "cuda" else "gloo", timeout=timedelta(hours=3))
    try:
        yield here
    finally:
        if joins:
            dist.destroy_process_group()


class Precision(NamedTuple):
    """The type that matrix products and convolutions are computed in, and where."""

    dtype: torch.dtype
    device: torch.device

    def autocast(self) -> torch.autocast:
        """A context in which a network computes in this type."""
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32)

    def scaler(self) -> torch.amp.GradScaler:
        """Scales losses so that small gradients survive float16; for other types it does nothing."""
        return torch.amp.GradScaler(self.device.type, enabled=self.dtype == torch.float16)


def choose_precision(name: str, device: torch.device) -> Precision:
    """The precision of a name; ``"auto"`` is bfloat16 on a GPU that has it, float16 on others, float32 on the CPU."""
    if name == "auto":
        on_gpu = "bfloat16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "float16"
        name = "float32" if device.type == "cpu" else on_gpu
    return Precision(getattr(torch, name), device)

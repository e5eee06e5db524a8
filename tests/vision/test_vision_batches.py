"""Batches: every image once an epoch, the same for the same seed, shared out evenly, and on with it in mid-epoch."""

import threading
import time

import numpy as np
import pytest
import torch

from propml.vision.batches import Batches


def images_of(n, side=4):
    """Image i is filled with the number i."""
    return np.broadcast_to(np.arange(n, dtype=np.uint8)[:, None, None, None], (n, side, side, 3)).copy()


def batches_of(n, size=4, **options):
    return Batches(images_of(n), np.arange(2 * n).reshape(n, 2), size, **options)


def rows(batches, epoch=0, start=0):
    return [index.tolist() for _, _, index in batches.epoch(epoch, start)]


def flat(steps):
    return [row for step in steps for row in step]


def test_every_image_once_with_its_own_target():
    batches = batches_of(11, seed=3)
    seen = []
    for images, targets, index in batches.epoch(0):
        assert images.dtype == torch.uint8
        assert images.shape[1:] == (3, 4, 4)
        assert images.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(images[:, 0, 0, 0].long(), index)
        assert torch.equal(targets, torch.stack([2 * index, 2 * index + 1], dim=1))
        seen.append(len(index))
    assert seen == [4, 4, 3]
    assert len(batches) == 3
    assert sorted(flat(rows(batches))) == list(range(11))


def test_the_order_depends_on_seed_and_epoch_alone():
    first = rows(batches_of(30, seed=1), epoch=2)
    assert rows(batches_of(30, seed=1), epoch=2) == first
    assert rows(batches_of(30, seed=1), epoch=3) != first
    assert rows(batches_of(30, seed=2), epoch=2) != first
    assert rows(batches_of(30, seed=1, shuffle=False), epoch=9) == [
        list(range(i, min(i + 4, 30))) for i in range(0, 30, 4)
    ]


@pytest.mark.parametrize("start", [0, 1, 5, 7, 8])
def test_an_epoch_goes_on_in_the_middle(start):
    batches = batches_of(30, seed=4)
    assert rows(batches, 1, start) == rows(batches, 1)[start:]


@pytest.mark.parametrize(("n", "world"), [(23, 2), (23, 3), (24, 2), (5, 4), (3, 4)])
def test_training_is_shared_out_evenly(n, world):
    parts = [rows(batches_of(n, size=2, seed=0, rank=rank, world=world), epoch=1) for rank in range(world)]
    assert len({len(part) for part in parts}) == 1  # all take as many steps,
    for step in zip(*parts, strict=True):
        assert len({len(share) for share in step}) == 1  # of as many images
    seen = flat(flat(parts))
    assert set(seen) == set(range(n))
    assert len(seen) - n < world  # what fills up the last step


def test_processes_together_see_what_one_sees():
    alone = rows(batches_of(24, size=8, seed=0), epoch=1)
    parts = [rows(batches_of(24, size=4, seed=0, rank=rank, world=2), epoch=1) for rank in range(2)]
    for step, shares in zip(alone, zip(*parts, strict=True), strict=True):
        assert sorted(flat(shares)) == sorted(step)


@pytest.mark.parametrize(("n", "world"), [(23, 2), (9, 4), (3, 4), (8, 3)])
def test_evaluation_sees_every_image_once(n, world):
    parts = [rows(batches_of(n, size=2, shuffle=False, rank=rank, world=world)) for rank in range(world)]
    assert sorted(flat(flat(parts))) == list(range(n))


def test_a_part_of_the_rows():
    batches = batches_of(20, size=3, seed=0, rows=np.array([3, 5, 8, 13, 19]))
    assert sorted(flat(rows(batches))) == [3, 5, 8, 13, 19]
    for images, targets, index in batches.epoch(0):
        assert torch.equal(images[:, 0, 0, 0].long(), index)
        assert torch.equal(targets[:, 0], 2 * index)


@pytest.mark.parametrize(("n", "world", "steps"), [(41, 1, 10), (42, 1, 11), (41, 2, 5), (42, 2, 5), (43, 2, 6)])
def test_a_last_step_of_a_single_image_is_left_out_of_training(n, world, steps):
    for rank in range(world):
        batches = batches_of(n, size=4, seed=0, rank=rank, world=world)
        sizes = [len(step) for step in rows(batches)]
        assert len(batches) == len(sizes) == steps
        assert min(sizes) > 1
        judged = [batches_of(n, size=4, shuffle=False, rank=rank, world=world) for rank in range(world)]
        assert sorted(flat(flat(map(rows, judged)))) == list(range(n))


def test_single_images_stay_where_there_is_nothing_else():
    assert rows(batches_of(1)) == [[0]]
    assert len(batches_of(3, size=1)) == 3


def test_a_memory_mapped_file(tmp_path):
    np.save(tmp_path / "images.npy", images_of(9))
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    for images, _, index in Batches(mapped, np.zeros((9, 1)), 4, seed=0).epoch(0):
        assert torch.equal(images[:, 0, 0, 0].long(), index)
        images += 1  # ours to change: the file is not behind it
    np.testing.assert_array_equal(mapped, images_of(9))


def test_the_next_batch_is_gathered_while_this_one_is_worked_on():
    gathered = []

    class Watched(np.ndarray):
        def take(self, indices, *args, **kwargs):
            gathered.append(time.perf_counter())
            return np.asarray(self).take(indices, *args, **kwargs)

    epoch = Batches(images_of(20).view(Watched), np.zeros((20, 1)), 4).epoch(0)
    next(epoch)
    time.sleep(0.3)
    asked = time.perf_counter()
    next(epoch)
    assert len([moment for moment in gathered if moment < asked]) >= 3
    epoch.close()


def test_who_stops_in_the_middle_leaves_no_thread():
    epoch = batches_of(100, size=1).epoch(0)
    next(epoch)
    epoch.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("propml-prefetch")]


def test_what_goes_wrong_in_the_thread_is_told():
    class Broken(np.ndarray):
        def take(self, *args, **kwargs):
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(Batches(images_of(4).view(Broken), np.zeros((4, 1)), 2).epoch(0))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"size": 0}, "batch_size is 0"),
        ({"rows": np.array([], int)}, "there are no images"),
    ],
)
def test_wrong_arguments_are_named(options, told):
    with pytest.raises(ValueError, match=told):
        batches_of(8, **options)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU: pinned memory and streams are not used")
def test_on_a_gpu():
    for images, targets, index in Batches(images_of(50), np.arange(50)[:, None], 8, seed=0, device="cuda").epoch(0):
        assert images.is_cuda
        assert torch.equal(images[:, 0, 0, 0].long(), index)
        assert torch.equal(targets[:, 0], index)

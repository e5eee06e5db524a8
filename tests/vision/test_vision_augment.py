"""Views of a batch: strong, weak and plain; seeded, in the paper's order."""

import numpy as np
import pytest
import torch

from propml.vision import batches as module
from propml.vision.batches import Augment, step_generator


def noisy(n, side=32):
    return torch.randint(256, (n, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_plain_is_the_definition():
    images = noisy(3)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    values = images.numpy().astype(np.float64) / 255
    expected = (values - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    found = Augment(mean, std).plain(images)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)
    np.testing.assert_allclose(Augment().plain(images).numpy(), values, atol=1e-7)  # TResNet's: no normalisation
    assert Augment(dtype=torch.bfloat16).plain(images).dtype == torch.bfloat16


def test_the_weak_view_flips_half_of_the_images():
    images = noisy(2000, side=4)
    found = Augment().weak(images, step_generator(0, 0, 0))
    plain = Augment().plain(images)
    same = (found == plain).flatten(1).all(dim=1)
    flipped = (found == plain.flip(3)).flatten(1).all(dim=1)
    assert (same ^ flipped).all()
    assert flipped.float().mean().item() == pytest.approx(0.5, abs=0.04)


def test_cutout_covers_a_square_of_half_the_side_with_one_colour(monkeypatch):
    monkeypatch.setattr(Augment, "_changed", lambda self, images: images)
    images = torch.zeros(300, 3, 32, 32, dtype=torch.uint8)
    found = Augment()(images, step_generator(0, 0, 0))
    covered = found.any(dim=1)
    rows, columns = covered.any(dim=2).sum(dim=1), covered.any(dim=1).sum(dim=1)
    assert (covered.sum(dim=(1, 2)) == rows * columns).all()  # rectangles
    # Pillow's rectangle has both ends: 17 pixels within, clipped down to 9 at a border (8, where the far end is).
    assert (rows.max(), columns.max()) == (17, 17)
    assert rows[rows > 0].min() in (8, 9)
    whole = found[(rows == 17) & (columns == 17)]
    assert (whole.flatten(2).amax(dim=2) > 0).float().mean() > 0.98
    fills = whole.flatten(2).amax(dim=2)
    assert fills.std(dim=0).min() > 0.2  # colours differ, uniformly over [0, 1]
    assert not Augment(kind="light")(images, step_generator(0, 0, 0)).any()


def test_the_order_is_the_papers(monkeypatch):
    seen = []
    monkeypatch.setattr(Augment, "_changed", lambda self, images: seen.append(images) or 255 - images)
    images = torch.zeros(50, 3, 16, 16, dtype=torch.uint8)
    found = Augment()(images, step_generator(0, 0, 0))
    before = torch.cat(seen)
    assert before.dtype == torch.uint8
    assert before.flatten(1).any(dim=1).float().mean() > 0.9  # cutout came before RandAugment
    assert torch.equal(found, Augment().plain(255 - before))  # normalisation after it
    assert {len(group) for group in seen[:-1]} == {module.GROUP}


def test_a_quarter_of_the_groups_is_left_alone_and_operations_differ():
    """Two operations, each done with probability one half, of which one in fourteen changes nothing."""
    images = noisy(8 * 400, side=8)
    found = Augment(kind="randaugment")(images, step_generator(0, 0, 0))
    plain = Augment().plain(images)
    alike = [
        bool(((a == b) | (a == b.flip(3))).flatten(1).all(dim=1).float().mean() > 0.9)
        for a, b in zip(found.split(8), plain.split(8), strict=True)
    ]
    assert 0.25 < np.mean(alike) < 0.4


def test_crops_have_the_size_that_was_asked_for_and_show_a_part():
    line = torch.arange(32, dtype=torch.uint8)
    images = torch.stack([line.expand(32, 32)] * 3).expand(16, -1, -1, -1).contiguous()
    augment = Augment(kind="crop", crop_size=12)
    found = augment(images, step_generator(0, 1, 2))
    assert found.shape == (16, 3, 12, 12)
    span = found[:, 0].amax(dim=(1, 2)) - found[:, 0].amin(dim=(1, 2))
    assert span.unique().numel() >= 2
    assert torch.equal(found, augment(images, step_generator(0, 1, 2)))


def test_the_random_numbers_of_others_are_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    Augment()(noisy(16), step_generator(0, 0, 0))
    assert torch.equal(torch.rand(3), expected)


def test_one_seed_one_result():
    images, augment = noisy(16), Augment()
    first = augment(images, step_generator(3, 1, 7))
    assert torch.equal(first, augment(images, step_generator(3, 1, 7)))
    for other in ((4, 1, 7), (3, 2, 7), (3, 1, 8), (3, 1, 7, 1)):
        assert not torch.equal(first, augment(images, step_generator(*other)))


def test_channels_last_stays_so():
    images = noisy(8).contiguous(memory_format=torch.channels_last)
    found = Augment()(images, step_generator(0, 0, 0))
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(found, Augment()(noisy(8), step_generator(0, 0, 0)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU to compare with")
def test_a_gpu_gives_the_same():
    images = noisy(64)
    here, there = (
        Augment()(images, step_generator(0, 0, 0)),
        Augment()(images.cuda(), step_generator(0, 0, 0)).cpu(),
    )
    assert ((here - there).abs() > 1.5 / 255).float().mean() < 1e-3  # interpolation rounds otherwise here and there

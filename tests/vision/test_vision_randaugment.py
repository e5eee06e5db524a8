"""RandAugment: 15 operations, nine strengths, two rounds of one half; seeded."""

import pytest
import torch

from propml.vision import randaugment
from propml.vision.randaugment import OPERATIONS, rand_augment


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def noisy(n, side=16, seed=0):
    return torch.randint(256, (n, 3, side, side), dtype=torch.uint8, generator=seeded(seed))


def test_the_operations_are_those_of_the_package():
    assert set(OPERATIONS) == {
        "shear_x", "shear_y", "translate_x", "translate_y", "rotate", "color", "contrast", "sharpness", "brightness",
        "posterize", "solarize", "autocontrast", "equalize", "invert", "cutout",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "level", "sign", "amount"),
    [
        ("shear_x", 9, -1, -0.3),
        ("shear_y", 3, 1, 0.1),
        ("translate_x", 9, 1, 150 / 331),
        ("rotate", 9, -1, 30.0),  # one direction only
        ("rotate", 3, 1, 10.0),
        ("color", 9, -1, 0.1),
        ("brightness", 5, 1, 1.5),
        ("posterize", 9, 1, 4.0),
        ("solarize", 9, -1, 0.0),
        ("solarize", 3, 1, 256 * 2 / 3),
        ("cutout", 9, 1, 20 / 224),
    ],
)
def test_strengths(name, level, sign, amount):
    found = randaugment._amounts(*(torch.tensor([v]) for v in (list(OPERATIONS).index(name), level, sign)))
    assert found.item() == pytest.approx(amount)


def test_the_same_seed_gives_the_same_images():
    images = noisy(40)
    first = rand_augment(images, seeded(5))
    assert torch.equal(first, rand_augment(images, seeded(5)))
    assert not torch.equal(first, rand_augment(images, seeded(6)))
    assert torch.equal(images, noisy(40))  # and what was given is as it was


def test_memory_format_does_not_matter():
    images = noisy(30)
    last = images.contiguous(memory_format=torch.channels_last)
    assert torch.equal(rand_augment(images, seeded(2)), rand_augment(last, seeded(2)))


def test_a_quarter_of_the_images_stays_as_it_is(monkeypatch):
    # With inversion alone an image is left alone, or inverted once, or twice (which is to leave it alone).
    monkeypatch.setattr(randaugment, "_applied", lambda name, images, amount, place: 255 - images)
    monkeypatch.setattr(randaugment.do, "moved", lambda images, sources: 255 - images)
    images = noisy(4000, side=2)
    changed = (rand_augment(images, seeded()) != images).flatten(1).any(dim=1)
    assert changed.float().mean().item() == pytest.approx(0.5, abs=0.03)  # one of two rounds
    changed = (rand_augment(images, seeded(), rounds=1) != images).flatten(1).any(dim=1)
    assert changed.float().mean().item() == pytest.approx(0.5, abs=0.03)
    assert torch.equal(rand_augment(images, seeded(), probability=0.0), images)
    assert (rand_augment(images, seeded(), rounds=1, probability=1.0) == 255 - images).all()


def test_every_image_gets_the_operation_it_drew(monkeypatch):
    drawn, moved = {}, {}

    def note(name, images, amount, place):
        drawn.update({int(image[0, 0, 0]): (name, float(own)) for image, own in zip(images, amount, strict=True)})
        return images

    def note_sources(images, sources):
        moved.update({int(image[0, 0, 0]): own for image, own in zip(images, sources, strict=True)})
        return images

    monkeypatch.setattr(randaugment, "_applied", note)
    monkeypatch.setattr(randaugment.do, "moved", note_sources)
    images = torch.arange(200, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 3, 2, 2)
    result = rand_augment(images, seeded(3), rounds=1, probability=1.0)
    assert torch.equal(result, images)
    draws = seeded(3)
    operation = torch.randint(15, (200,), generator=draws)
    level = torch.randint(1, 10, (200,), generator=draws)
    sign = 2 * torch.randint(2, (200,), generator=draws) - 1
    amounts = randaugment._amounts(operation, level, sign)
    for i in range(200):
        name = list(OPERATIONS)[operation[i]]
        if name in randaugment.MOVES:
            expected = OPERATIONS[name].apply(amounts[i : i + 1], 2, 2)[0]
            torch.testing.assert_close(moved[i], expected.float())
        else:
            assert drawn[i] == (name, pytest.approx(amounts[i].item(), rel=1e-6))
    assert len(moved) + len(drawn) == 200
    assert len({name for name, _ in drawn.values()}) == 10


def test_what_moves_pixels_only():
    assert set(randaugment.MOVES) == {"shear_x", "shear_y", "translate_x", "translate_y", "rotate"}


def test_cutout_covers_a_square_with_grey():
    images = torch.zeros(1, 3, 224, 224, dtype=torch.uint8)
    found = randaugment._applied("cutout", images, torch.tensor([20 / 224]), torch.tensor([[0.5, 0.5]]))
    assert set(found.unique().tolist()) == {0, randaugment.do.GREY}
    assert 20**2 <= (found[0, 0] == randaugment.do.GREY).sum().item() <= 21**2


def test_all_operations_run_and_stay_bytes():
    images = noisy(600, side=20)
    found = rand_augment(images, seeded(), probability=1.0)
    assert (found.dtype, found.shape) == (torch.uint8, images.shape)
    assert (found != images).flatten(1).any(dim=1).float().mean() > 0.9

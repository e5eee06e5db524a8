"""Every operation on a batch does to each image what Pillow does to one."""

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from propml.vision import image_operations as do

SIDE = 24


def pictures(n=5, seed=0, height=SIDE, width=SIDE):
    """A flat, a dark and some noisy images, and a smooth one, ``(n, 3, height, width)``."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (n, height, width, 3), dtype=np.uint8)
    images[0] = (7, 200, 90)
    images[1] //= 5
    y, x = np.mgrid[:height, :width]
    images[2] = np.stack([6 * x + 40, 6 * y + 60, 3 * (x + y) + 50], axis=2)
    return torch.from_numpy(images).permute(0, 3, 1, 2)


def with_pillow(images, function, amounts):
    """``function(image, amount)`` for one image after the other."""
    one_by_one = [
        np.asarray(function(Image.fromarray(image.permute(1, 2, 0).numpy()), float(amount)))
        for image, amount in zip(images, amounts, strict=True)
    ]
    return torch.from_numpy(np.stack(one_by_one)).permute(0, 3, 1, 2)


AMOUNTS = torch.tensor([0.1, 0.55, 1.0, 1.45, 1.9])


@pytest.mark.parametrize("name", ["Color", "Contrast", "Sharpness", "Brightness"])
def test_enhancements_are_pillows(name):
    images = pictures()
    expected = with_pillow(images, lambda image, amount: getattr(ImageEnhance, name)(image).enhance(amount), AMOUNTS)
    found = getattr(do, name.lower())(images, AMOUNTS)
    assert found.dtype == torch.uint8
    # 0.55 is not the same number in float32 and float64: where a product falls on a whole number, the byte may differ.
    assert (found.int() - expected.int()).abs().max() <= 1
    assert (found != expected).float().mean() < 0.01


@pytest.mark.parametrize(
    ("ours", "pillows", "amounts"),
    [
        (do.invert, lambda image, _: ImageOps.invert(image), [0.0] * 5),
        (do.autocontrast, lambda image, _: ImageOps.autocontrast(image), [0.0] * 5),
        (do.equalize, lambda image, _: ImageOps.equalize(image), [0.0] * 5),
        (do.posterize, lambda image, bits: ImageOps.posterize(image, int(bits)), [8.0, 7, 6, 5, 4]),
        (do.solarize, lambda image, limit: ImageOps.solarize(image, limit), [0.0, 28.4, 128, 227.6, 256]),
    ],
    ids=["invert", "autocontrast", "equalize", "posterize", "solarize"],
)
def test_new_values_are_pillows_to_the_byte(ours, pillows, amounts):
    for images in (pictures(), pictures(seed=1, height=40, width=70)):
        assert torch.equal(ours(images, torch.tensor(amounts)), with_pillow(images, pillows, amounts))


def moved_by(move):
    return lambda images, amount: do.moved(images, move(amount, *images.shape[2:]))


def affine(matrix_of):
    return lambda image, amount: image.transform(
        image.size,
        Image.Transform.AFFINE,
        matrix_of(amount, image.size),
        Image.Resampling.BILINEAR,
        fillcolor=(128,) * 3,
    )


@pytest.mark.parametrize(
    ("ours", "pillows", "scale"),
    [
        (moved_by(do.shear_x), affine(lambda a, size: (1, a, 0, 0, 1, 0)), 0.15),
        (moved_by(do.shear_y), affine(lambda a, size: (1, 0, 0, a, 1, 0)), 0.15),
        (moved_by(do.translate_x), affine(lambda a, size: (1, 0, a * size[0], 0, 1, 0)), 0.25),
        (moved_by(do.translate_y), affine(lambda a, size: (1, 0, 0, 0, 1, a * size[1])), 0.25),
        (
            moved_by(do.rotate),
            lambda image, angle: image.rotate(angle, Image.Resampling.BILINEAR, fillcolor=(128,) * 3),
            30,
        ),
    ],
    ids=["shear_x", "shear_y", "translate_x", "translate_y", "rotate"],
)
def test_pixels_move_where_pillow_moves_them(ours, pillows, scale):
    smooth = pictures(height=30, width=42)[2:3].expand(5, -1, -1, -1)
    white = torch.full_like(smooth, 255)
    amounts = torch.linspace(-1, 1, 5) * scale
    # At the border ours blends with the fill and Pillow's does not: compare where both see nothing but the image.
    inside = (ours(white, amounts) == 255) & (with_pillow(white, pillows, amounts) == 255)
    found, expected = ours(smooth, amounts).int(), with_pillow(smooth, pillows, amounts).int()
    assert inside.float().mean() > 0.5
    assert ((found - expected).abs() * inside).max() <= 1
    assert torch.equal(found[2], smooth[2].int())  # nothing moved
    grey = [
        (moved == do.GREY).float().mean().item()
        for moved in (ours(white, amounts), with_pillow(white, pillows, amounts))
    ]
    assert grey[0] == pytest.approx(grey[1], abs=0.05)


def test_a_whole_pixel_to_the_left():
    image = torch.arange(3 * 4 * 4, dtype=torch.uint8).view(1, 3, 4, 4)
    moved = moved_by(do.translate_x)(image, torch.tensor([0.25]))
    assert torch.equal(moved[..., :3], image[..., 1:])
    assert (moved[..., 3] == do.GREY).all()


def test_a_quarter_turn_is_counter_clockwise():
    image = pictures(seed=4)[3:4]
    assert torch.equal(moved_by(do.rotate)(image, torch.tensor([90.0])), image.rot90(1, (2, 3)))


def test_each_image_has_its_own_square():
    images = torch.zeros(3, 3, 9, 9, dtype=torch.uint8)
    centre = torch.tensor([[0.5, 0.5], [0.0, 0.999], [0.5, 0.5]])
    fill = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]], dtype=torch.uint8)
    found = do.erase(images, centre, torch.tensor([3, 5, 0]), fill)
    assert (found[0, :, 3:6, 3:6] == fill[0].view(3, 1, 1)).all()
    assert found[0].bool().any(dim=0).sum() == 9
    assert found[1].bool().any(dim=0).nonzero().tolist() == [[y, x] for y in range(3) for x in range(6, 9)]
    assert found[2].bool().any(dim=0).sum() == 1  # both ends are inside: nothing is one pixel wide


def channels_last(n, side):
    return torch.randint(256, (n, side, side, 3), dtype=torch.uint8).permute(0, 3, 1, 2)


SOME = {
    "whole words": channels_last(6, 8),
    "bytes that fill no words": channels_last(6, 5),
    "channels first": channels_last(6, 8).contiguous(),
    "from the second on": channels_last(7, 8)[1:],
    "memory that starts between words": channels_last(7, 6)[1:],
    "every second": channels_last(12, 8)[::2],
}


@pytest.mark.parametrize("rows", [[4, 0, 2], []])
@pytest.mark.parametrize("images", SOME.values(), ids=SOME)
def test_some_images_are_taken_and_put_back(images, rows):
    rows = torch.tensor(rows, dtype=torch.int64)
    assert torch.equal(do.chosen(images, rows), images[rows])
    for changed in (255 - images[rows], (255 - images[rows]).contiguous()):
        result = images.clone()
        do.put(result, rows, changed)
        expected = images.clone()
        expected[rows] = changed
        assert torch.equal(result, expected)

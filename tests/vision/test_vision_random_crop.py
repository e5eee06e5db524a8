import torch

from propml.vision import image_operations as do
from propml.vision.augment import COLOUR, random_crop, step_generator


def gradient(side: int) -> torch.Tensor:
    """One image whose red is its column and whose green is its row."""
    line = torch.arange(side, dtype=torch.uint8)
    return torch.stack([line.expand(side, side), line[:, None].expand(side, side), torch.zeros(side, side).byte()])[
        None
    ]


def amounts(*values: float) -> list[torch.Tensor]:
    return [torch.tensor([value]) for value in values]


def test_a_crop_of_everything_changes_nothing():
    images = torch.randint(256, (1, 3, 9, 14), dtype=torch.uint8)
    assert torch.equal(do.crop(images, *amounts(1, 1, 0, 0.5, 0.5)), images)


def test_a_quarter_of_an_image_is_enlarged():
    found = do.crop(gradient(16), *amounts(0.5, 0.5, 0, 0.25, 0.75))[0, :, 1:-1, 1:-1]  # the lower left one
    assert found[0].unique().tolist() == list(range(8))
    assert found[1].unique().tolist() == list(range(8, 16))
    assert torch.equal(found[0, 5, ::2].int().diff(), torch.ones(6, dtype=torch.int32))  # a pixel became two


def test_a_crop_is_turned_about_its_centre():
    images = gradient(32)
    turned = do.crop(images, *amounts(1, 1, 90, 0.5, 0.5))
    assert torch.equal(turned, torch.rot90(images, 1, (2, 3)))


def test_the_same_state_gives_the_same_crops_and_images_differ():
    images = torch.full((64, 3, 8, 8), 100, dtype=torch.uint8)
    one, again = (random_crop(images, step_generator(0, 1, 2)) for _ in range(2))
    assert torch.equal(one, again)
    values = one[:, :, 4, 4].float()  # what lies outside of the image is grey: its middle never is
    assert values.unique().numel() > 20
    assert values.max() <= 100 * (1 + COLOUR) + 30
    assert values.min() >= 100 * (1 - COLOUR) - 30


def test_a_smaller_crop_holds_the_same_part():
    small = do.crop(gradient(16), *amounts(0.5, 0.5, 0, 0.25, 0.75), size=8)  # a pixel for a pixel
    assert small.shape == (1, 3, 8, 8)
    assert torch.equal(small, gradient(16)[:, :, 8:, :8])


def test_random_crops_have_the_size_that_was_asked_for():
    images = torch.randint(256, (3, 3, 20, 20), dtype=torch.uint8)
    assert random_crop(images, step_generator(0, 0, 0), 12).shape == (3, 3, 12, 12)

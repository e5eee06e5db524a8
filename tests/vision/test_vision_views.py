import pytest
import torch

from propml.vision.batches import augmented

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")),
]


def batches(n, device):
    for step in range(n):
        number = torch.tensor([step] * 2, device=device)
        yield torch.full((2, 3, 4, 4), step, device=device), number, number.clone()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_every_batch_comes_once_in_order_with_the_number_of_its_step(n, device):
    found = list(augmented(batches(n, device), lambda images, step: 100 * images + step, int, torch.device(device), 7))
    assert [view.unique().tolist() for view, _, _ in found] == [[101 * step + 7] for step in range(n)]
    assert [(targets[0].item(), index[0].item()) for _, targets, index in found] == [(step, step) for step in range(n)]
    assert all(view.is_contiguous(memory_format=torch.channels_last) for view, _, _ in found)


def test_on_the_cpu_nothing_is_made_ahead():
    made = []
    views = augmented(batches(3, "cpu"), lambda images, step: made.append(step) or images, int, torch.device("cpu"))
    next(views)
    assert made == [0]

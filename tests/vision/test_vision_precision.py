"""Which floating point where."""

import pytest
import torch

from propml.vision.distributed import choose_precision

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_products_are_computed_in_the_type_that_was_asked_for(name):
    precision = choose_precision(name, CPU)
    with precision.autocast():
        assert torch.nn.Linear(2, 2)(torch.zeros(1, 2)).dtype == getattr(torch, name)
    assert precision.scaler().is_enabled() == (name == "float16")


@pytest.mark.parametrize(("has_bfloat16", "expected"), [(True, torch.bfloat16), (False, torch.float16)])
def test_a_gpu_computes_in_bfloat16_where_it_can(monkeypatch, has_bfloat16, expected):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: has_bfloat16)
    assert choose_precision("auto", torch.device("cuda")).dtype == expected
    assert choose_precision("auto", CPU).dtype == torch.float32

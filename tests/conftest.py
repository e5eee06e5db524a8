"""What all tests share: one torch thread per worker, and the folder of real datasets where there is one."""

import os
from pathlib import Path

import hypothesis
import pytest
import torch

# Two busy workers with two torch threads each fight over two cores: one thread each is much faster.
torch.set_num_threads(1)
# An example may take long on a busy machine without being wrong.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real datasets; tests that need it are skipped where PROPML_DATA is not set."""
    folder = os.environ.get("PROPML_DATA")
    if not folder:
        pytest.skip("PROPML_DATA is not set: the real datasets are not at hand")
    path = Path(folder)
    assert path.is_dir(), f"PROPML_DATA={folder} is not a folder"
    return path

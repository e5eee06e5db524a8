"""What ``propml.vision`` offers by name, and that asking for it is cheap."""

import subprocess
import sys

import pytest

import propml.vision


def test_every_name_leads_somewhere():
    for name in propml.vision.__all__:
        assert getattr(propml.vision, name) is not None
    assert propml.vision.METHODS["ProPML"] == {"loss": "propml"}
    with pytest.raises(AttributeError, match=r"'propml.vision' has no attribute 'trian'"):
        propml.vision.trian  # noqa: B018


def test_heavy_packages_wait_until_they_are_needed():
    heavy = "timm torchvision matplotlib onnx tensorboard PIL"
    code = (
        f"import sys; from propml.vision import *; print([name for name in '{heavy}'.split() if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr

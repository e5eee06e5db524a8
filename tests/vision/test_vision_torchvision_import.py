"""torchvision and timm can be imported, whatever torchvision was built for."""

import os
import subprocess
import sys

import pytest

from propml.vision.backbone import import_vision

# A torchvision that cannot be imported before somebody declares its operators, as a CUDA build beside a CPU torch.
UNHEALTHY = """
import torch
torch._C._dispatch_has_kernel_for_dispatch_key("torchvision::nms", "Meta")
torch._C._dispatch_has_kernel_for_dispatch_key("torchvision::qnms", "Meta")
"""


def in_new_process(code, path=""):
    places = os.pathsep.join([str(path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": places})
    return done.stdout.strip(), done.stderr


def test_a_torchvision_of_another_build_is_made_to_import(tmp_path):
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text(UNHEALTHY)
    out, error = in_new_process(
        "import sys\n"
        "from propml.vision.backbone import import_vision\n"
        "print('torchvision' in sys.modules, 'timm' in sys.modules)\n"
        "try:\n    import torchvision\n"
        "except RuntimeError as error:\n    print(error)\n"
        "import_vision(); import_vision(); import torchvision; print(torchvision.__name__)",
        tmp_path,
    )
    assert error == ""
    assert out.splitlines() == ["False False", "operator torchvision::nms does not exist", "torchvision"]


def test_another_error_of_torchvision_is_not_hidden(tmp_path):
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("raise RuntimeError('the disk is on fire')")
    _, error = in_new_process("from propml.vision.backbone import import_vision; import_vision()", tmp_path)
    assert "the disk is on fire" in error


def test_transforms_and_models_work_here():
    transforms = import_vision("torchvision.transforms.v2")
    assert transforms.RandAugment is not None
    assert "tresnet_l" in import_vision("timm").list_models("tresnet*")


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"propml\[vision\]"):
        import_vision("timm")

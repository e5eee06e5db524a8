"""The ONNX file gives what the network gives, from plain pixels."""

import json
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from propml.vision import checkpoint as export
from propml.vision.backbone import input_of, make_network
from propml.vision.checkpoint import TrainedNetwork, export_onnx
from propml.vision.predict import probabilities
from propml.vision.recipe import VisionRecipe


def network(**settings):
    torch.manual_seed(0)
    recipe = VisionRecipe(size=32, weights=None, **settings)
    made = make_network(recipe, 4).eval()
    for module in made.modules():
        if isinstance(module, torch.nn.BatchNorm2d):  # statistics as after training, not 0 and 1
            module.running_mean.normal_(std=0.1)
            module.running_var.uniform_(0.5, 1.5)
    return TrainedNetwork(made, ("a", "b", "c", "été"), recipe, *input_of(recipe.backbone)[1:], {})


@pytest.mark.parametrize(
    "settings",
    [
        {"backbone": "resnet10t"},
        {"backbone": "small_cnn", "head": "query2label", "head_width": 16, "head_feedforward": 32},
    ],
    ids=["timm", "query2label"],
)
@pytest.mark.filterwarnings("ignore")
def test_the_file_gives_the_same_for_any_number_of_images(settings, tmp_path):
    trained = network(**settings)
    written = export_onnx(trained, tmp_path / "model.onnx")
    assert written.largest_difference < 1e-5
    session = onnxruntime.InferenceSession(written.path)
    for n in (1, 5):
        pixels = np.random.default_rng(n).integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)
        logits, found = session.run(["logits", "probabilities"], {"pixels": pixels})
        np.testing.assert_allclose(found, probabilities(trained, pixels, mirror=False), atol=1e-5)
        np.testing.assert_allclose(found, 1 / (1 + np.exp(-logits)), atol=1e-6)
    properties = {entry.key: entry.value for entry in onnx.load(written.path).metadata_props}
    assert json.loads(properties["labels"]) == ["a", "b", "c", "été"]
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_a_file_that_differs_is_not_written(tmp_path, monkeypatch):
    node = onnx.helper.make_node("Identity", ["pixels"], ["probabilities"])
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, ["n"]) for name in ("pixels", "probabilities")
    ]
    other = onnx.helper.make_model(onnx.helper.make_graph([node], "other", ends[:1], ends[1:]))
    monkeypatch.setattr("torch.onnx.export", lambda network, inputs, path, **_: onnx.save(other, path))
    monkeypatch.setattr(export, "_difference", lambda *_: 0.3)
    with pytest.raises(ValueError, match=r"differs from the network by 0.3 .* it was not written"):
        export_onnx(network(backbone="small_cnn"), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_the_name_must_tell_the_format(tmp_path):
    trained = network(backbone="small_cnn")
    with pytest.raises(ValueError, match=r"choose a name in .onnx"):
        export_onnx(replace(trained, card={}), tmp_path / "model.pt")

"""Networks by name, their heads, and files of weights that fit or do not."""

import pytest
import torch
from safetensors.torch import save_file

from propml.vision.backbone import import_vision, input_of, load_backbone, make_network, resolved
from propml.vision.recipe import VisionRecipe


def recipe(backbone="resnet10t", **changes):
    return VisionRecipe(
        backbone=backbone, **{"size": 32, "weights": None, "head_width": 16, "head_feedforward": 32, **changes}
    )


@pytest.mark.parametrize("head", ["linear", "query2label"])
@pytest.mark.parametrize("backbone", ["small_cnn", "resnet10t", "vit_tiny_patch16_224", "xcit_nano_12_p16_224"])
def test_every_backbone_takes_every_head(backbone, head):
    network = make_network(recipe(backbone, head=head), n_labels=5).eval()
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert network(images).shape == (2, 5)
        features = network.features(images)
    assert features.shape == (2, network.backbone.num_features)


def test_tresnet_l_is_there():
    """The paper's network; 53.6 million parameters before the head."""
    network = make_network(recipe("tresnet_l"), n_labels=20).eval()
    assert sum(value.numel() for value in network.backbone.parameters()) == pytest.approx(53.6e6, rel=0.01)
    with torch.no_grad():
        assert network(torch.rand(1, 3, 32, 32)).shape == (1, 20)
    assert network.head.in_features == 2432


def test_a_feature_map_has_one_layout_whatever_the_backbone_has():
    class ChannelsLast(torch.nn.Module):
        output_fmt = "NHWC"

        def forward_features(self, images):
            return torch.zeros(len(images), 4, 5, 6)

    network = make_network(recipe("small_cnn"), 2)
    network.backbone = ChannelsLast()
    assert network.feature_map(torch.zeros(2, 3, 8, 8)).shape == (2, 6, 4, 5)
    tokens = make_network(recipe("vit_tiny_patch16_224"), 2).eval()
    found = tokens.feature_map(torch.zeros(1, 3, 32, 32))
    assert found.shape == (1, 192, 2, 2)  # 4 places of 16 pixels, the class token left out


def test_leading_tokens_beyond_a_square_stand_for_no_place():
    """XCiT and CaiT have a class token and do not say so."""

    class Tokens(torch.nn.Module):
        def forward_features(self, images):
            return torch.arange(10.0).reshape(1, 10, 1)

    network = make_network(recipe("small_cnn"), 2)
    network.backbone = Tokens()
    assert network.feature_map(torch.zeros(1, 3, 8, 8)).flatten().tolist() == list(range(1, 10))


@pytest.mark.parametrize(
    ("backbone", "changes", "side"),
    [
        ("small_cnn", {"size": 4}, 4),
        ("small_cnn", {"augment": "crop", "crop_size": 4}, 4),
        ("small_cnn", {"size": 4, "augment": "crop", "crop_size": 16}, 4),  # the size of evaluation
        ("vit_tiny_patch16_224", {"augment": "crop", "crop_size": 16}, 16),
        ("xcit_nano_12_p16_224", {"size": 20}, 20),
    ],
)
def test_a_size_that_a_backbone_does_not_take_is_named(backbone, changes, side):
    with pytest.raises(ValueError, match=rf"^{backbone} cannot take images of {side} × {side} pixels \(.*\); give"):
        make_network(recipe(backbone, **changes), 3)


def test_a_new_network_has_learned_nothing_from_the_images_it_was_tried_with():
    network = make_network(recipe(), 3)
    assert network.training
    norms = [module for module in network.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    assert norms
    assert all(norm.num_batches_tracked == 0 for norm in norms)


def test_an_image_of_the_small_network_does_not_depend_on_its_batch():
    network, images = make_network(recipe("small_cnn"), 3), torch.randn(4, 3, 32, 32)
    torch.testing.assert_close(network(images)[:1], network(images[:1]), atol=1e-5, rtol=1e-5)


def test_tresnet_takes_pixels_as_they_are_and_others_as_they_were_trained():
    assert input_of("tresnet_l") == (224, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    assert input_of("resnet18")[1] == (0.485, 0.456, 0.406)
    assert input_of("tf_efficientnet_lite3")[0] == 300


def test_an_unknown_name_is_told_with_its_neighbours():
    with pytest.raises(ValueError, match=r"no image model 'resnet10'; did you mean 'resnet10"):
        make_network(recipe("resnet10"), 3)
    with pytest.raises(ValueError, match="small_cnn is ours"):
        make_network(recipe("my own network"), 3)


def test_weights_that_cannot_be_downloaded(monkeypatch):
    def unreachable(*_, pretrained, **__):
        if pretrained:
            raise OSError("no route to host\nand more")
        raise RuntimeError("something else")

    monkeypatch.setattr(import_vision("timm"), "create_model", unreachable)
    with pytest.raises(OSError, match=r"of resnet10t could not be downloaded .no route to host.; give a file"):
        make_network(recipe(weights="pretrained"), 3)
    with pytest.raises(RuntimeError, match="something else"):
        make_network(recipe(), 3)


@pytest.fixture
def stored():
    torch.manual_seed(1)
    made = import_vision("timm").create_model("resnet10t", num_classes=7)
    return made.state_dict()


@pytest.mark.parametrize("kind", ["safetensors", "state dict", "checkpoint of a training script"])
def test_weights_from_a_file_are_all_of_the_backbones(tmp_path, stored, kind):
    path = tmp_path / ("w.safetensors" if kind == "safetensors" else "w.pth")
    if kind == "safetensors":
        save_file(stored, path)
    elif kind == "state dict":
        torch.save(stored, path)
    else:
        torch.save({"state_dict": {f"module.{name}": value for name, value in stored.items()}, "epoch": 3}, path)
    network = make_network(recipe(weights=str(path)), n_labels=3)
    for name, value in network.backbone.state_dict().items():
        torch.testing.assert_close(value, stored[name])


def test_a_file_that_does_not_fit_is_refused_by_name(tmp_path, stored):
    network = make_network(recipe(), 3)

    def refusal(state):
        save_file(state, tmp_path / "w.safetensors")
        with pytest.raises(ValueError, match=r"w\.safetensors .*; give") as told:
            load_backbone(network.backbone, tmp_path / "w.safetensors")
        return str(told.value)

    first = next(name for name in stored if name.endswith("weight"))
    lacking = {name: value for name, value in stored.items() if name != first}
    assert f"does not fit the backbone: it lacks 1 tensors, such as {first}" in refusal(lacking)
    assert f"size mismatch for {first}" in refusal({**stored, first: torch.zeros(1)})
    assert "unknown to this backbone" in refusal({**stored, "layer9.weight": torch.zeros(1)})


def test_a_file_whose_names_cannot_be_translated_does_not_fit(tmp_path, stored):
    """ConvNeXt takes a name with fc in it for its own old form, and looks for others that ResNet does not have."""
    torch.save(stored, tmp_path / "w.pth")
    with pytest.raises(ValueError, match=r"w\.pth is not a readable file of weights \(KeyError"):
        make_network(recipe("convnext_atto", weights=str(tmp_path / "w.pth")), 3)


def test_a_file_that_is_missing_or_damaged(tmp_path):
    network = make_network(recipe(), 3)
    with pytest.raises(FileNotFoundError, match="no file of weights"):
        load_backbone(network.backbone, tmp_path / "w.pth")
    (tmp_path / "w.pth").write_bytes(b"half a file")
    with pytest.raises(ValueError, match="is not a readable file of weights"):
        load_backbone(network.backbone, tmp_path / "w.pth")


@pytest.mark.parametrize("held", [[torch.zeros(2)], torch.zeros(2), 3, {"epoch": 3}, {0: torch.zeros(2)}])
def test_a_file_that_holds_something_else(tmp_path, held):
    torch.save(held, tmp_path / "w.pth")
    with pytest.raises(ValueError, match=r"w\.pth is not a readable file of weights .*; give"):
        load_backbone(make_network(recipe(), 3).backbone, tmp_path / "w.pth")


def test_official_tresnet_names_are_translated(tmp_path, monkeypatch):
    """timm's own translation is asked where the backbone's module has one."""
    network = make_network(recipe("small_cnn"), 3)
    import propml.vision.backbone as module

    monkeypatch.setattr(
        module,
        "checkpoint_filter_fn",
        lambda state, _: {name.replace("body", "layers"): value for name, value in state.items()},
        raising=False,
    )
    state = {name.replace("layers", "body"): value + 1 for name, value in network.backbone.state_dict().items()}
    save_file(state, tmp_path / "official.safetensors")
    load_backbone(network.backbone, tmp_path / "official.safetensors")
    name, value = next(iter(network.backbone.state_dict().items()))
    torch.testing.assert_close(value, state[name.replace("layers", "body")])


def test_what_a_recipe_leaves_open_is_decided_by_its_backbone():
    open_recipe = resolved(VisionRecipe())
    assert (open_recipe.size, open_recipe.weights, open_recipe.tune) == (300, "pretrained", "all")
    assert (resolved(VisionRecipe(backbone="small_cnn")).weights, resolved(VisionRecipe(size=20)).size) == (None, 20)
    for changes in ({"weights": None}, {"head": "query2label"}, {"curriculum": "cdcr"}, {"select": "last"}):
        assert resolved(VisionRecipe(**changes)).tune == "at-once"
    assert resolved(VisionRecipe(weights=None, tune="head")).tune == "head"

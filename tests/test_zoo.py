"""The networks of the zoo: sizes as in their papers, shapes, published weights."""

from pathlib import Path

import pytest
import torch
from images import cifar, cifar_labels
from torch import nn

from actdma.measure import zoo


def parameters(name, **options):
    with torch.device("meta"):
        return sum(p.numel() for p in zoo.build(name, **options).parameters())


@pytest.mark.parametrize(
    ("name", "millions"),  # as the papers round them
    [
        ("resnet20", "0.27"),
        ("resnet32", "0.46"),
        ("resnet56", "0.85"),
        ("resnet18", "11.7"),
        ("resnet50", "25.6"),
        ("mobilenetv2", "3.5"),
        ("alexnet", "61.0"),
        ("overfeat", "145.9"),
        ("nin", "7.6"),
        ("vgg16", "138.36"),
        ("squeezenet", "1.24"),
        ("squeezenet1.0", "1.25"),
        ("googlenet", "7.0"),
        ("vit-base", "86.6"),
        ("vit-small", "22.1"),
        ("vit-tiny", "5.7"),
        ("gpt", "124.4"),
        ("resmlp-s12", "15.4"),
    ],
)
def test_parameters(name, millions):
    digits = len(millions.partition(".")[2])
    assert f"{parameters(name) / 1e6:.{digits}f}" == millions


@pytest.mark.parametrize(
    ("name", "options", "side"),
    [
        ("resnet20", {}, 32),
        ("resnet56", {}, 32),
        ("resnet18", {}, 224),
        ("resnet18", {"cifar": True}, 32),
        ("resnet50", {"cifar": True}, 32),
        ("mobilenetv2", {}, 224),
        ("mobilenetv2", {"cifar": True}, 32),
        ("alexnet", {}, 224),
        ("alexnet", {"side": 32, "width": 0.25}, 32),
        ("overfeat", {"side": 32, "width": 0.25}, 32),
        ("nin", {}, 224),
        ("nin", {"side": 32}, 32),
        ("vgg16", {"side": 32, "width": 0.25}, 32),
        ("squeezenet", {}, 224),
        ("squeezenet1.0", {}, 224),
        ("squeezenet", {"side": 32}, 32),
        ("googlenet", {}, 224),
        ("googlenet", {"side": 32, "width": 0.25}, 32),
        ("relu-cnn", {}, 32),
        ("gelu-transformer", {}, 32),
        ("vit-tiny", {"side": 32, "patch": 4}, 32),
        ("resmlp-s12", {"side": 32, "patch": 4}, 32),
    ],
)
def test_logits_and_gradients(name, options, side):
    torch.manual_seed(0)
    model = zoo.build(name, classes=7, **options)
    logits = model(torch.randn(2, 3, side, side))
    assert logits.shape == (2, 7)
    nn.functional.cross_entropy(logits, torch.tensor([0, 1])).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(
    ("name", "options", "side", "last"),
    [
        ("resnet18", {"cifar": True}, 32, 4),
        ("mobilenetv2", {"cifar": True}, 32, 4),
        ("resnet18", {}, 224, 7),
        ("mobilenetv2", {}, 224, 7),
        ("alexnet", {"side": 32}, 32, 8),
        ("overfeat", {"side": 32}, 32, 8),
        ("nin", {"side": 32}, 32, 8),
        ("vgg16", {"side": 32}, 32, 2),
        ("squeezenet", {"side": 32}, 32, 4),
        ("googlenet", {"side": 32}, 32, 4),
        ("alexnet", {}, 224, 13),
        ("nin", {}, 224, 6),
        ("vgg16", {}, 224, 14),
        ("squeezenet", {}, 224, 13),
        ("squeezenet1.0", {}, 224, 13),
        ("googlenet", {}, 224, 7),
        ("overfeat", {}, 231, 12),
    ],
)
def test_side_of_the_last_convolutions_maps(name, options, side, last):
    with torch.device("meta"):
        model, maps = zoo.build(name, **options).eval(), []
        convolution = [m for m in model.modules() if isinstance(m, nn.Conv2d)][-1]
        convolution.register_forward_hook(lambda module, x, y: maps.append(y.shape[-1]))
        model(torch.zeros(1, 3, side, side))
    assert maps == [last]


def test_the_order_of_layers():
    names = [name for name, _ in zoo.build("alexnet", width=0.25).named_children()]
    assert names[:8] == ["conv1", "relu1", "norm1", "pool1", "conv2", "relu2", "norm2", "pool2"]
    assert names[-7:] == ["fc6", "relu6", "dropout6", "fc7", "relu7", "dropout7", "fc8"]


def test_fire_and_inception_put_branches_side_by_side():
    x = torch.randn(2, 8, 5, 5)
    fire = zoo.Fire(8, 4, 6)
    squeezed = fire.squeeze1x1(x).relu()
    assert torch.equal(fire(x)[:, :6], fire.expand1x1(squeezed).relu())
    assert torch.equal(fire(x)[:, 6:], fire.expand3x3(squeezed).relu())
    inception = zoo.Inception(8, (2, 3, 4, 5, 6, 7))
    assert [branch.shape[1] for branch in inception(x).split((2, 4, 6, 7), 1)] == [2, 4, 6, 7]
    assert torch.equal(inception(x)[:, 12:], inception.pooled(x))


def test_width():
    narrow = zoo.build("vgg16", side=32, width=0.25)
    assert (narrow.conv1_1.out_channels, narrow.conv5_3.out_channels) == (16, 128)
    assert narrow.fc8.out_features == 1000


def test_gpt_is_causal():
    torch.manual_seed(0)
    model = zoo.build("gpt", width=32, depth=2, heads=4, vocabulary=50, context=16).eval()
    tokens = torch.randint(50, (2, 16))
    changed = tokens.clone()
    changed[:, 8:] = torch.randint(50, (2, 8))
    with torch.no_grad():
        a, b = model(tokens), model(changed)
    assert a.shape == (2, 16, 50)
    assert torch.allclose(a[:, :8], b[:, :8], atol=1e-6)
    assert not torch.allclose(a[:, 8:], b[:, 8:], atol=1e-3)


def test_vit_dropout():
    model = zoo.build("vit-tiny", side=32, patch=8, dropout=0.5)
    x = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        assert not torch.equal(model(x), model(x))
        model.eval()
        assert torch.equal(model(x), model(x))


def test_unet_sees_time_and_gives_images():
    torch.manual_seed(0)
    model = zoo.UNet((8, 16), units=1, dropout=0.0)
    x = torch.randn(2, 3, 16, 16)
    early, late = (model(x, torch.full((2,), t)) for t in (1, 900))
    assert early.shape == x.shape
    assert not torch.allclose(early, late)
    late.square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_unet_of_the_paper():
    """35.7 million parameters, with attention at a second resolution that this one leaves out."""
    with torch.device("meta"):
        model = zoo.UNet((128, 256, 256, 256))
    assert 33e6 < sum(p.numel() for p in model.parameters()) < 36e6


def test_unet_s_widths():
    with pytest.raises(ValueError, match=r"widths are \(8, 12\), allowed are multiples of 8"):
        zoo.UNet((8, 12))
    with pytest.raises(ValueError, match="5 heads do not divide a width of 16"):
        zoo.UNet((8, 16), heads=5)


def test_resmlp_mixes_patches_only_across():
    """Without the layers across patches a patch's result depends on that patch alone."""
    torch.manual_seed(0)
    model = zoo.build("resmlp-s12", width=16, depth=2, side=8, patch=4, classes=3).eval()
    x = torch.randn(1, 3, 8, 8)
    changed = x.clone()
    changed[..., :4, :4] += 1
    mixed = [model.blocks(model.patches(v))[0, 1:] for v in (x, changed)]
    assert not torch.allclose(*mixed)
    for block in model.blocks:
        nn.init.zeros_(block.across.weight)
    alone = [model.blocks(model.patches(v))[0, 1:] for v in (x, changed)]
    assert torch.equal(*alone)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "resnet21"}, "unknown network 'resnet21'; known are 'resnet20'"),
        ({"name": "gpt", "weights": Path()}, "no weights of 'gpt'; there are those of 'resnet20'"),
        ({"name": "resmlp-s12", "patch": 5}, "patches of 5 do not divide images of 224"),
        ({"name": "alexnet", "side": 64}, "images of 64 x 64: allowed are 32 and 224"),
        ({"name": "overfeat", "side": 224}, "images of 224 x 224: allowed are 32 and 231"),
        ({"name": "nin", "width": 0.01}, "a width of 0.01 leaves none of 96 channels"),
        ({"name": "vit-tiny", "heads": 5}, "5 heads do not divide a width of 192"),
    ],
)
def test_bad_requests(arguments, message):
    with pytest.raises(ValueError, match=message):
        zoo.build(**arguments)


def test_depth_of_a_cifar_resnet():
    with pytest.raises(ValueError, match=r"depth is 21, allowed are 6n \+ 2"):
        zoo.cifar_resnet(21)


def test_published_features_of_squeezenet(data):
    model = zoo.build("squeezenet", weights=data).eval()
    state = torch.load(data / zoo.WEIGHTS["squeezenet"], weights_only=True)
    assert model.features.state_dict().keys() == state.keys()
    assert all(torch.equal(model.features.state_dict()[name], state[name]) for name in state)
    assert model.conv10.weight.shape == (1000, 512, 1, 1)


@pytest.mark.parametrize(("name", "accuracy"), [("resnet20", 0.917), ("resnet56", 0.934)])
def test_published_weights_reach_their_accuracy(data, name, accuracy):
    model = zoo.build(name, weights=data).eval()
    images, labels = cifar(data, 2000, "test"), cifar_labels(data, 2000, "test")
    with torch.no_grad():
        right = [
            (model(x).argmax(1) == y).sum().item()
            for x, y in zip(images.split(250), labels.split(250), strict=True)
        ]
    assert abs(sum(right) / len(images) - accuracy) < 0.02  # 2000 of 10,000 images: 3 deviations

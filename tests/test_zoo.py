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
        ("squeezenet", "0.72"),
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
        ("squeezenet", {}, 224),
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
    ("name", "side", "strides"),
    [("resnet18", 32, 8), ("mobilenetv2", 32, 8), ("resnet18", 224, 32), ("mobilenetv2", 224, 32)],
)
def test_cifar_stems_keep_the_map(name, side, strides):
    model, maps = zoo.build(name, cifar=side == 32).eval(), []
    last = [m for m in model.modules() if isinstance(m, nn.Conv2d)][-1]
    last.register_forward_hook(lambda module, x, y: maps.append(y.shape[-1]))
    with torch.no_grad():
        model(torch.zeros(1, 3, side, side))
    assert maps == [side // strides]


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
        ({"name": "vit-tiny", "heads": 5}, "5 heads do not divide a width of 192"),
    ],
)
def test_bad_requests(arguments, message):
    with pytest.raises(ValueError, match=message):
        zoo.build(**arguments)


def test_depth_of_a_cifar_resnet():
    with pytest.raises(ValueError, match=r"depth is 21, allowed are 6n \+ 2"):
        zoo.cifar_resnet(21)


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

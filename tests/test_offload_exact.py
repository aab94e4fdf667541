"""`offload(exact=True)`: less is held, and every gradient has the plain run's bits."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sessions import leaf, offload, records

ORDERS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def activated(activation):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), activation, nn.Conv2d(8, 4, 3), nn.Flatten()
    )


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.stem = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.convs = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(4))
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(4))

    def forward(self, x):
        x = F.relu(self.stem(self.first(x)))
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = F.relu(x + norm(conv(x)))
        return x.flatten(1)


class Scale(nn.Module):
    """A layer scale, an affine and padding."""

    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(12), nn.Linear(16, 7)
        self.scale, self.shift = (nn.Parameter(torch.randn(12)) for _ in range(2))

    def forward(self, x):
        return self.linear(F.pad(self.norm(x) * self.scale + self.shift, (2, 2)))


def conv(*layers, channels=8):
    return nn.Sequential(nn.Conv2d(3, channels, 3), *layers, nn.Flatten(1))


IMAGES = {
    "relu": lambda: activated(nn.ReLU()),
    "relu in place": lambda: activated(nn.ReLU(inplace=True)),
    "relu alone": lambda: conv(nn.ReLU(), nn.AvgPool2d(2)),
    "relu6": lambda: activated(nn.ReLU6()),
    "relu6 in place": lambda: activated(nn.ReLU6(inplace=True)),
    "hardtanh": lambda: activated(nn.Hardtanh(-1, 1)),
    "hardtanh odd": lambda: activated(nn.Hardtanh(-0.3, 0.7)),
    "hardtanh alone": lambda: conv(nn.Hardtanh(), nn.Conv2d(8, 2, 3)),
    "leaky relu": lambda: activated(nn.LeakyReLU(0.1)),
    "leaky relu in place": lambda: activated(nn.LeakyReLU(0.1, inplace=True)),
    "leaky relu alone": lambda: conv(nn.LeakyReLU(0.2), nn.AdaptiveAvgPool2d(4)),
    "hardswish": lambda: activated(nn.Hardswish()),
    "silu": lambda: activated(nn.SiLU()),
    "silu in place": lambda: activated(nn.SiLU(inplace=True)),
    "gelu": lambda: activated(nn.GELU()),
    "gelu tanh": lambda: activated(nn.GELU("tanh")),
    "dropout": lambda: activated(nn.Dropout(0.3)),
    "dropout in place": lambda: activated(nn.Dropout(0.3, inplace=True)),
    "dropout2d": lambda: activated(nn.Dropout2d(0.3)),
    "all dropped": lambda: activated(nn.Dropout(1.0)),
    "max pool": lambda: conv(nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3)),
    "max pool 3 2 1": lambda: conv(nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)),
    "max pool dilated": lambda: conv(nn.MaxPool2d((3, 2), (2, 3), (1, 0), (2, 3))),
    "max pool ceil": lambda: conv(nn.MaxPool2d(3, 2, ceil_mode=True)),
    "max pool wide": lambda: conv(nn.MaxPool2d((2, 14))),
    "adaptive max pool": lambda: conv(nn.AdaptiveMaxPool2d(3)),
    "momentum None": lambda: conv(nn.BatchNorm2d(8, momentum=None), nn.Conv2d(8, 4, 3)),
    "no affine": lambda: conv(nn.BatchNorm2d(8, affine=False), nn.Conv2d(8, 4, 3)),
    "no statistics": lambda: conv(nn.BatchNorm2d(8, track_running_stats=False), nn.Conv2d(8, 4, 3)),
    "frozen": lambda: conv(nn.BatchNorm2d(8).eval(), nn.ReLU(), nn.Conv2d(8, 4, 3)),
    "sync": lambda: conv(nn.SyncBatchNorm(8).eval(), nn.Conv2d(8, 4, 3)),
    # Between processes it trains on GPUs alone; in one it is a batch norm.
    "sync in training": lambda: conv(nn.SyncBatchNorm(8), nn.ReLU(), nn.Conv2d(8, 4, 3)),
    "group norm": lambda: conv(nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 4, 3)),
    "instance norm": lambda: conv(nn.InstanceNorm2d(8, affine=True), nn.Conv2d(8, 4, 3)),
    "residual": Residual,
}


def run(model, x, **options):
    """Gradients, buffers and result of a step."""
    model = copy.deepcopy(model)
    x = x.clone(memory_format=torch.preserve_format).requires_grad_()
    torch.manual_seed(7)
    if options:
        with offload(model, **options) as session:
            y = model(x)
    else:
        session, y = None, model(x)
    weights = torch.linspace(-1, 1, y.numel()).view_as(y).to(y.dtype)
    (y * weights).sum().backward()
    got = [y.detach(), x.grad, *(p.grad for p in model.parameters()), *model.buffers()]
    return got, session


def bits(t):
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return t.contiguous().view(integer[t.element_size()])


def assert_same(model, x, **options):
    plain, _ = run(model, x)
    exact, session = run(model, x, exact=True, verify=True, min_bytes=0, **options)
    for a, b in zip(plain, exact, strict=True):
        assert (a is None) == (b is None)
        assert a is None or torch.equal(bits(a), bits(b))
    return session.report()


def plain_bytes(report, form):
    return sum(r.plain_bytes for r in report.records if r.form == form)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("name", IMAGES)
def test_gradients_of_images_have_the_plain_bits(name, dtype, order):
    torch.manual_seed(0)
    model = IMAGES[name]().to(dtype).to(memory_format=ORDERS[order])
    x = torch.randn(4, 3, 17, 19).to(dtype).contiguous(memory_format=ORDERS[order])
    assert_same(model, x)


@pytest.mark.parametrize("name", IMAGES)
def test_gradients_under_autocast_have_the_plain_bits(name):
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        assert_same(IMAGES[name](), torch.randn(4, 3, 17, 19), codec="auto")


@pytest.mark.parametrize("special", [float("nan"), float("inf"), -float("inf"), -0.0, 1e-40])
@pytest.mark.parametrize(
    "layer", [nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(), nn.Dropout(0.5), nn.MaxPool2d(2), nn.GELU()]
)
def test_special_values_have_the_plain_bits(layer, special):
    class Model(nn.Module):
        def forward(self, x):
            return layer(x * 1)

    for count in (16, 37, 64, 1000):
        x = torch.randn(2, 2, 2, count)
        x[torch.rand_like(x) < 0.3] = special
        assert_same(Model(), x)


@pytest.mark.parametrize("threads", [1, 2])
def test_another_number_of_threads_in_backward_changes_no_bit(threads):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 333), nn.GELU(), nn.Linear(333, 8), nn.SiLU())
    x = torch.randn(1001, 64)
    before = torch.get_num_threads()
    results = []
    try:
        for options in ({}, {"exact": True, "verify": True}):
            trained = copy.deepcopy(model)
            torch.set_num_threads(3 - threads)
            if options:
                with offload(trained, **options):
                    y = trained(x).sum()
            else:
                y = trained(x).sum()
            torch.set_num_threads(threads)
            y.backward()
            results.append([p.grad for p in trained.parameters()])
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_a_scale_an_affine_and_padding_are_made_again():
    report = assert_same(Scale(), torch.randn(6, 5, 12))
    assert plain_bytes(report, "made again") >= 6 * 5 * 16 * 4


def test_what_a_chain_makes_is_not_held():
    report = assert_same(activated(nn.ReLU()), torch.randn(4, 3, 17, 19))
    (again,) = (r for r in report.records if r.form == "made again")
    assert (again.operator, again.saves, again.stored_bytes) == ("relu", 2, 0)
    assert again.decompressions == 1  # for the convolution and for the ReLU
    assert again.bit_identical


class Viewed(nn.Module):
    """Layers behind views of something that is made again, by one of which it is saved whole."""

    def __init__(self, activation, whole):
        super().__init__()
        self.a, self.norm = nn.Linear(16, 16), nn.LayerNorm(16)
        self.activation = activation
        self.head = nn.Linear(16, 8)
        self.whole = nn.Linear(16, 8) if whole else None

    def forward(self, x):
        y = self.norm(self.a(x))
        results = [self.whole(y)] if self.whole else []
        return [*results, self.head(self.activation(y[:, 3])), self.head(y[1:, 2])]


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("activation", [torch.relu, nn.functional.gelu, nn.Identity()])
def test_views_of_what_is_made_again_have_the_plain_bits(activation, whole, autocast):
    model, x = Viewed(activation, whole), torch.randn(4, 9, 16)
    gradients = []
    for exact in (False, True):
        session = offload(model, exact=exact, verify=exact)
        with session, torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            results = model(x)
        sum(r.float().square().sum() for r in results).backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
        model.zero_grad()
    assert any(r.form == "made again" for r in session.report().records)
    assert all(torch.equal(bits(a), bits(b)) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize("activation", [nn.GELU, nn.SiLU, nn.Hardswish])
@pytest.mark.parametrize("dropout", [[], [nn.Dropout(0.1)]])
def test_an_activation_that_saves_its_input_itself_is_made_again_from_it(activation, dropout):
    model = nn.Sequential(nn.Linear(24, 48), activation(), *dropout, nn.Linear(48, 8))
    report = assert_same(model, torch.randn(5, 7, 24))
    assert [r.module for r in report.records if r.form == "made again"] == [str(2 + len(dropout))]


def test_every_other_residual_addition_is_done_again():
    report = assert_same(Residual(), torch.randn(4, 3, 17, 19))
    inputs = [r for r in report.records if r.operator in ("relu", "Relu")]
    assert [r.form for r in inputs] == ["made again", "made again", "values", "made again", "sign"]


def test_a_relu_before_a_pool_takes_a_bit_and_indices_their_place_in_the_window():
    model = conv(nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 4, 3), channels=16)
    report = assert_same(model, torch.randn(16, 3, 34, 34))
    elements = 16 * 16 * 32 * 32
    forms = {r.form: r for r in report.records}
    assert forms["sign"].stored_bytes < 1.1 * elements / 8
    assert forms["shape"].stored_bytes == 0
    assert forms["window index"].stored_bytes < 1.3 * elements / 4 / 4
    assert forms["window index"].plain_bytes == 2 * elements


def test_indices_that_the_user_sees_stay_as_they_are():
    x = leaf(2, 3, 8, 8)
    with offload(exact=True):
        y, indices = F.max_pool2d(x * 1, 2, return_indices=True)
    expected = F.max_pool2d(x.detach(), 2, return_indices=True)[1]
    assert torch.equal(indices, expected)
    y.sum().backward()


def test_a_relu_whose_result_is_needed_whole_is_held_once():
    report = assert_same(conv(nn.ReLU(), nn.Conv2d(8, 4, 3)), torch.randn(4, 3, 17, 19))
    assert [r.saves for r in report.records if r.shape == (4, 8, 15, 17)] == [2]


def test_autocasts_copies_of_parameters_are_cast_again():
    model = nn.Sequential(nn.Linear(50, 70), nn.ReLU(), nn.Linear(70, 30))
    x = torch.randn(9, 50)
    results = []
    for options in ({}, {"exact": True}):
        trained = copy.deepcopy(model)
        with torch.autocast("cpu", torch.bfloat16):
            if options:
                with offload(trained, min_bytes=0, **options) as session:
                    y = trained(x).sum()
            else:
                y = trained(x).sum()
        y.backward()
        results.append([p.grad for p in trained.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert session.report().kept["cast again"] >= 1
    with torch.autocast("cpu", torch.bfloat16), offload(model, exact=True, min_bytes=0):
        y = model(x).sum()
    with torch.no_grad():
        model[2].weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_the_report_says_what_is_held_and_counts_no_ratio_for_what_no_codec_saw():
    model = conv(nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3))
    report = assert_same(model, torch.randn(4, 3, 34, 34), codec="raw")
    text = str(report)
    assert "made again" in text
    assert "shape" in text
    assert report.totals()["raw_bytes"] == sum(r.raw_bytes for r in report.records)
    assert all(not r.raw_bytes for r in report.records if r.form in ("made again", "shape"))
    assert [r.to_dict()["ratio"] for r in report.records if r.form == "shape"] == [None]


def test_running_statistics_are_touched_once():
    model = activated(nn.ReLU())
    with offload(model, exact=True):
        y = model(torch.randn(4, 3, 17, 19)).sum()
    before = model[1].running_mean.clone()
    y.backward()
    assert torch.equal(model[1].running_mean, before)
    assert model[1].num_batches_tracked == 1


def test_backward_twice_and_double_backward_have_the_plain_bits():
    torch.manual_seed(0)
    model = activated(nn.SiLU())
    x = torch.randn(2, 3, 9, 9)
    results = []
    for options in ({}, {"exact": True, "min_bytes": 0}):
        t = x.clone().requires_grad_()
        if options:
            with offload(model, **options):
                y = model(t).pow(2).sum()
        else:
            y = model(t).pow(2).sum()
        (g,) = torch.autograd.grad(y, t, retain_graph=True)
        (h,) = torch.autograd.grad(y, t, create_graph=True)
        (k,) = torch.autograd.grad(h.pow(2).sum(), t)
        results.append((g, h.detach(), k))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_an_input_changed_in_place_after_saving_is_an_error():
    x = leaf(100)
    with offload(exact=True):
        h = x * 2
        y = F.gelu(h).sin().sum()
        h.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_without_gradients_nothing_is_looked_at():
    model = activated(nn.ReLU())
    with offload(model, exact=True) as session, torch.no_grad():
        model(torch.randn(4, 3, 17, 19))
    assert not records(session)


class Shared(nn.Module):
    """A result that is made again for several: for some by writing over it, for others not."""

    def __init__(self, use):
        super().__init__()
        self.conv, self.norm, self.use = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), use
        self.a, self.b = nn.Conv2d(8, 4, 3), nn.Conv2d(8, 4, 3)
        self.line = nn.Linear(19, 4)

    def forward(self, x):
        return self.use(self, self.norm(self.conv(x))).flatten(1)


@pytest.mark.parametrize(
    "use",
    [
        lambda m, y: m.a(F.relu(y)) + m.b(y),
        lambda m, y: m.b(y) + m.a(F.relu(y)),
        lambda m, y: m.a(F.relu(y)) + m.b(F.relu6(y)),
        lambda m, y: m.a(F.relu(y + y)) + m.b(F.relu(y) + y),
        lambda m, y: m.line(F.relu(y[:, 0])) + m.line(F.relu6(y[:, 1])),
        lambda m, y: m.a(F.relu(y + y[:, :1])) + m.a(F.relu(y[:1] + y)),
        lambda m, y: m.a(F.relu(y.transpose(2, 3))),
    ],
    ids=range(7),
)
def test_nobody_sees_what_is_made_for_another_written_over(use):
    torch.manual_seed(0)
    report = assert_same(Shared(use), torch.randn(4, 3, 23, 21))
    assert any(r.form == "made again" for r in report.records)


def test_transforms_give_their_own_error_and_compiled_models_run():
    with offload(exact=True), pytest.raises(RuntimeError):
        torch.func.grad(lambda t: F.relu(t).sum())(torch.randn(8))
    model = activated(nn.ReLU())
    compiled = torch.compile(model, backend="eager")
    x = torch.randn(4, 3, 17, 19)
    model(x).sum().backward()
    plain = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with offload(model, exact=True):
        y = compiled(x).sum()
    y.backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(plain, model.parameters(), strict=True))


def test_wrong_calls_give_pytorchs_own_errors():
    with offload(exact=True):
        for wrong in (lambda: F.relu(), lambda: F.max_pool2d(leaf(2, 2, 4, 4)), lambda: F.gelu(3)):
            with pytest.raises(TypeError):
                wrong()


def test_the_plan_says_what_pytorch_would_hold_what_is_held_and_why():
    model = conv(nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3))
    session = offload(model, exact=True)
    with pytest.raises(RuntimeError, match="run the model in the session's block first"):
        session.plan()
    results = []
    for _ in range(2):
        with session:
            results.append(model(torch.randn(4, 3, 34, 34)))
    plan = session.plan()
    assert len(session.report().records) == 2 * len(plan.records)
    # The image, three maps of 8 x 32 x 32, indices and values of 16 x 16; statistics.
    maps = 4 * (3 * 34 * 34 * 4 + 2 * 8 * 32 * 32 * 4 + 8 * 16 * 16 * (8 + 4)) + 2 * 8 * 4
    assert sum(r.plain_bytes for r in plan.records) == maps
    text = str(plan)
    assert "its operator runs again in backward" in text
    assert "pooling does not look at its input again" in text
    assert f"{maps / 1e6:.3f}" in text


def test_a_decorated_function_records_its_latest_call_and_nothing_twice():
    model = activated(nn.ReLU())
    session = offload(model, exact=True)

    @session
    def loss(x):
        """Its own."""
        return model(x).sum()

    assert loss.__doc__ == "Its own."
    counts = []
    for _ in range(3):
        loss(torch.randn(4, 3, 17, 19)).backward()
        counts.append((len(session.report().records), session.report().totals()["plain_bytes"]))
    assert counts == counts[:1] * 3
    assert session.held_bytes == 0


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
def test_a_tensor_of_which_the_shape_is_enough_takes_no_memory_in_backward(order):
    x = torch.randn(2, 8, 64, 64).to(memory_format=order).requires_grad_()
    seen = []
    session = offload(exact=True)
    with session:
        y = nn.functional.avg_pool2d(x * 1.0, 2)
    with torch.no_grad():
        saved = y.grad_fn._saved_self
        seen.append((saved.shape, saved.stride(), session.held_bytes, float(saved.abs().sum())))
    assert seen == [(x.shape, x.stride(), 0, 0.0)]
    y.sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 0.25))

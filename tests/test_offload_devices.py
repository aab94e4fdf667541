"""Tensors that are not on the CPU: copies by a side stream, from and to pinned memory."""

import contextlib
import copy

import pytest
import torch

import networks
from actdma.offloading import transfer
from sessions import leaf, offload, records
from test_offload import same_gradients


class Device:
    """Stands in for `torch.cuda`: logs what is done on its streams, with tensors of the CPU."""

    def __init__(self):
        self.log = []
        self.now = "main"
        log = self.log
        module = self

        class Event:
            def record(self, stream):
                self.of = stream.name
                log.append(("record", stream.name))

            def synchronize(self):
                log.append(("synchronize", self.of))

        class Stream:
            def __init__(self, device=None, name="side"):
                self.name = name

            def wait_event(self, event):
                log.append((self.name, "waits for", event.of))

        self.Event, self.Stream = Event, Stream
        self.current_stream = lambda device: Stream(name=module.now)

    @contextlib.contextmanager
    def stream(self, stream):
        before, self.now = self.now, stream.name
        yield
        self.now = before


@pytest.fixture
def device(monkeypatch):
    """The CPU, taken for a device with streams; memory is not pinned, there being nothing to pin
    it for."""
    module = Device()
    empty = torch.empty

    def unpinned(*shape, pin_memory=False, **options):
        module.log.extend([("pinned", shape[0])] * pin_memory)
        return empty(*shape, **options)

    monkeypatch.setattr(transfer, "_on_host", lambda device: False)
    monkeypatch.setattr(torch, "get_device_module", lambda device: module)
    monkeypatch.setattr(torch, "empty", unpinned)
    monkeypatch.setattr(
        torch.Tensor, "record_stream", lambda t, s: module.log.append(("used", s.name))
    )
    monkeypatch.setattr(transfer, "_side_stream", lambda device: module.Stream(device))
    return module


def test_saving_waits_for_the_device_only_in_the_thread(device):
    x = leaf(1000)
    with offload(queue_bytes=1 << 20) as session:
        y = (x * 2).sin().sum()
    session.report()
    assert device.log == [
        ("record", "main"),  # in forward, which goes on
        ("pinned", 4000),
        ("side", "waits for", "main"),
        ("record", "side"),
        ("synchronize", "side"),
    ]
    device.log.clear()
    y.backward()
    assert device.log == [
        ("pinned", 4000),
        ("record", "side"),
        ("main", "waits for", "side"),
        ("used", "main"),
    ]
    assert torch.equal(x.grad, 2 * (2 * x.detach()).cos())


@pytest.mark.parametrize("network", ["relu_cnn", "Transformer"])
def test_gradients_are_bit_identical(device, network):
    model, x = getattr(networks, network)(), networks.images()
    plain = networks.step(copy.deepcopy(model), x)
    session = offload(model, queue_bytes=1 << 28)
    assert same_gradients(plain, networks.step(model, x, session))
    assert records(session)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("queue_bytes", [0, None])
@pytest.mark.parametrize("network", ["relu_cnn", "resnet", "Transformer"])
def test_cuda(network, queue_bytes):
    torch.backends.cudnn.deterministic = True
    model, x = getattr(networks, network)().cuda(), networks.images().cuda()
    plain = networks.step(copy.deepcopy(model), x)
    session = offload(model, queue_bytes=queue_bytes)
    assert same_gradients(plain, networks.step(model, x, session))
    assert records(session)

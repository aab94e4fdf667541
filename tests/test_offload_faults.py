"""A board's faults during training: the CPU's codec takes over, and the gradients are exact."""

import copy
import re

import pytest
import torch

import actdma
import networks
from actdma.board import BoardError
from actdma.emulation import Fault
from actdma.native import NativeBackend
from sessions import leaf, offload
from test_offload import same_gradients
from toolchain import ROOT


class Faulty(NativeBackend):
    """A board that fails at every third frame, one way or the other."""

    name = "board"
    break_even_bytes = 0

    def __init__(self, ways=("compress", "decompress"), error=BoardError):
        super().__init__()
        self.calls = 0
        self.ways, self.error = ways, error

    def fail(self, way):
        self.calls += 1
        if way in self.ways and self.calls % 3 == 0:
            raise self.error("the engine sits in mid-frame")

    def compress(self, *arguments):
        self.fail("compress")
        return super().compress(*arguments)

    def decompress(self, frame, out):
        out[:] = 1  # half delivered
        self.fail("decompress")
        return super().decompress(frame, out)


@pytest.mark.parametrize("queue_bytes", [0, 1 << 20])
@pytest.mark.parametrize("way", ["compress", "decompress"])
@pytest.mark.parametrize("error", [BoardError, MemoryError])
def test_a_step_survives(way, error, queue_bytes):
    model, x = networks.resnet(), networks.images()
    plain = networks.step(copy.deepcopy(model), x)
    session = offload(model, backend=Faulty([way], error), queue_bytes=queue_bytes)
    with pytest.warns(RuntimeWarning, match="CPU's codec does what it fails at") as seen:
        assert same_gradients(plain, networks.step(model, x, session))
    assert len([w for w in seen if "mid-frame" in str(w.message)]) == 1
    report = session.report()
    assert report.faults > 1
    assert report.totals()["faults"] == report.faults
    others = [r for r in report.records if r.backend == "native"]
    assert len(others) == (report.faults if way == "compress" else 0)


def test_a_frame_that_the_board_calls_bad_is_read_by_the_cpu():
    def refuse(message):
        return actdma.FrameError(actdma.frame.Status.RAW_CRC, message)

    x = leaf(5000)
    with offload(backend=Faulty(["decompress"], refuse), queue_bytes=0) as session:
        y = (x * 2).sin().exp().tanh().sum()
    with pytest.warns(RuntimeWarning, match="mid-frame"):
        y.backward()
    assert session.report().faults == 1


def test_a_frame_that_is_bad_is_an_error():
    x = leaf(5000)
    with offload(backend=Faulty(), queue_bytes=0) as session:
        y = (x * 2).sin()
    span = session._packer._order[0]()
    span._frame.data[100] ^= 1
    loss = y.sum()
    with pytest.raises(actdma.FrameError):
        loss.backward()
    assert session.report().faults == 0


def test_small_tensors_are_left_to_the_cpu():
    class Board(NativeBackend):
        name = "board"
        break_even_bytes = 2000

    x = leaf(1000)
    for break_even, expected in ((None, ["board", "native"]), (0, ["board", "board"])):
        with offload(backend=Board(), break_even_bytes=break_even) as session:
            y = (x * 2).sin()[:400].exp()
        assert [r.backend for r in session.report().records] == expected
        y.sum().backward()


def test_a_board_closed_before_backward():
    x = leaf(20_000)
    with actdma.open_board("emulated") as board:
        with offload(backend=board, break_even_bytes=0):
            y = (x * 2).sin().sum()
        # Packing goes on in a thread.
        y_grad = torch.autograd.grad(y, x, retain_graph=True)[0]
    with pytest.warns(RuntimeWarning, match="closed"):
        y.backward()
    assert torch.equal(x.grad, y_grad)


def test_the_guide(capsys):
    """docs/trust.md: the example prints what is said there, and every fault is listed."""
    guide = (ROOT / "docs/trust.md").read_text()
    example, said = re.search(r"```python\n(.*?)```\n.*?```text\n(.*?)```", guide, re.S).groups()
    exec(example, {})
    assert capsys.readouterr().out == said
    listed = re.findall(r"`([A-Z_]+)`", "".join(re.findall(r"^\| (`[A-Z].*?) \|", guide, re.M)))
    assert sorted(listed) == sorted(fault.name for fault in Fault)

"""`actdma.offload` packs in a thread of its own, and decodes ahead."""

import contextlib
import copy
import gc
import os
import threading
import time
import weakref

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import networks
from actdma.backend import ReferenceBackend
from actdma.frame import FrameError, Status
from actdma.native import NativeBackend
from actdma.offloading.queue import AtOnce, Queue, copied, queue_of
from sessions import leaf, offload, records
from test_offload import same_gradients
from threads import run_threads


class Slow(NativeBackend):
    """Waits for `go` before it compresses; remembers in which thread and order it worked."""

    def __init__(self):
        super().__init__()
        self.go = threading.Event()
        self.packers = set()
        self.decoded = []

    def compress(self, *arguments):
        self.packers.add(threading.current_thread())
        assert self.go.wait(20)
        return super().compress(*arguments)

    def decompress(self, frame, out):
        self.decoded.append((threading.current_thread(), out.size))
        return super().decompress(frame, out)


def threads():
    return {t for t in threading.enumerate() if t.name.startswith("actdma")}


def until(happens, seconds=10):
    """Wait until ``happens()``, at most so long."""
    end = time.monotonic() + seconds
    while not happens() and time.monotonic() < end:
        time.sleep(0.005)


def test_no_room_is_no_thread():
    assert isinstance(queue_of(0), AtOnce)
    assert isinstance(queue_of(1), Queue)


def test_work_is_done_in_order():
    queue, done = Queue(100), []
    results = [queue.put(10, lambda n=n: done.append(n)) for n in range(50)]
    results[-1].result()
    assert done == list(range(50))


def test_put_waits_for_room():
    queue, go, put = Queue(100), threading.Event(), []

    def fill():
        for _ in range(4):
            queue.put(40, go.wait)
            put.append(1)

    thread = threading.Thread(target=fill)
    thread.start()
    thread.join(0.2)
    assert len(put) == 2
    go.set()
    thread.join(10)
    assert len(put) == 4


def test_work_larger_than_the_queue_gets_in_alone():
    assert Queue(10).put(1000, lambda: "done").result() == "done"


def test_room_is_given_back_when_work_fails():
    queue = Queue(10)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            queue.put(10, lambda: 1 / 0).result()


def test_the_thread_ends_with_the_queue():
    others = threads()  # of boards that earlier tests have not yet let go of
    queue = Queue(10)
    queue.put(1, lambda: None).result()
    (own,) = threads() - others
    del queue
    gc.collect()
    until(lambda: not own.is_alive())
    assert not own.is_alive()


def test_forward_does_not_wait_and_memory_is_bounded():
    backend, x = Slow(), leaf(1000)
    with offload(backend=backend, queue_bytes=1 << 20) as s:
        y = (x * 2).sin().exp().sum()  # returns though nothing is packed
    assert threading.current_thread() not in backend.packers
    backend.go.set()
    y.backward()
    assert len(records(s)) == 2
    torch.testing.assert_close(x.grad, 2 * (2 * x).cos() * (2 * x).sin().exp())


def test_originals_are_freed_when_they_are_packed():
    from torch.multiprocessing.reductions import StorageWeakRef

    backend, x = Slow(), leaf(1000)
    with offload(backend=backend, queue_bytes=1 << 20) as s:
        h = x * 2
        y = h.sin().sum()
        storage = StorageWeakRef(h.untyped_storage())
        del h
        assert not storage.expired()
        backend.go.set()
        s.report()
        until(storage.expired)  # the thread drops its work after it has answered
        assert storage.expired()
    y.backward()


def test_a_graph_dropped_before_it_is_packed_is_not_packed():
    backend, x = Slow(), leaf(1000)
    with offload(backend=backend, queue_bytes=1 << 20) as s:
        busy = (x * 3).sin()
        y = (x * 2).exp()
        del y
        backend.go.set()
    assert len(records(s)) == 1
    del busy


def test_backward_decodes_ahead_in_reverse_order():
    backend, x = Slow(), leaf(1000)
    backend.go.set()
    with offload(backend=backend, queue_bytes=1 << 20) as s:
        y = x
        for size in range(1000, 500, -100):
            y = (y * 2)[:size].sin()
            if size == 700:
                y.register_hook(lambda g: until(lambda: len(backend.decoded) == 5))
        y = y.sum()
    y.backward()
    assert [size for _, size in backend.decoded] == [4 * n for n in (600, 700, 800, 900, 1000)]
    ahead = [thread is not threading.current_thread() for thread, _ in backend.decoded]
    assert ahead == [False, True, True, True, True]
    assert all(r.decompressions == 1 for r in records(s))


def test_no_more_is_decoded_ahead_than_may_wait():
    backend, x = Slow(), leaf(1000)
    backend.go.set()
    most = []
    with offload(backend=backend, queue_bytes=8000) as s:
        y = x
        for _ in range(8):
            y = (y * 2).sin()
            y.register_hook(lambda g: most.append(s.held_bytes))
        y = y.sum()
    stored = sum(r.stored_bytes for r in records(s))
    y.backward()
    # Two spans ahead, the one in use, and what is still packed.
    assert max(most) <= stored + 3 * 4000


@pytest.mark.parametrize("network", ["relu_cnn", "resnet", "Transformer"])
def test_gradients_are_bit_identical(network):
    model, x = getattr(networks, network)(), networks.images()
    plain = networks.step(copy.deepcopy(model), x)
    for queue_bytes in (1, 1 << 16, 1 << 28):
        session = offload(model, queue_bytes=queue_bytes)
        assert same_gradients(plain, networks.step(copy.deepcopy(model), x, session))


def test_records_do_not_depend_on_the_thread():
    def kinds(queue_bytes):
        model, x = networks.resnet(), networks.images()
        session = offload(model, queue_bytes=queue_bytes)
        networks.step(model, x, session)
        return [(r.module, r.operator, r.shape, r.codec, r.saves) for r in records(session)]

    torch.manual_seed(0)
    assert kinds(0) == kinds(1 << 28) == kinds(1 << 28)


def accumulated(model, x, make):
    for part in x.chunk(2):
        with make():
            loss = model(part).square().mean()
        loss.backward()
    return {n: p.grad for n, p in model.named_parameters()}


@pytest.mark.parametrize("queue_bytes", [0, 1 << 20])
def test_gradients_accumulate(queue_bytes):
    model, x = networks.resnet(), networks.images()
    other = copy.deepcopy(model)
    plain = accumulated(model, x, contextlib.nullcontext)
    session = offload(other, queue_bytes=queue_bytes)
    assert same_gradients(plain, accumulated(other, x, lambda: session))


@pytest.mark.parametrize("queue_bytes", [0, 1 << 20])
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointed_parts(queue_bytes, reentrant):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.rest = networks.resnet()[0], networks.resnet()[1:]

        def forward(self, x):
            return checkpoint(self.rest, self.first(x), use_reentrant=reentrant)

    model, x = Checkpointed(), networks.images()
    plain = networks.step(copy.deepcopy(model), x)
    session = offload(model, queue_bytes=queue_bytes)
    assert same_gradients(plain, networks.step(model, x, session))


def test_autocast():
    model, x = networks.Transformer(), networks.images()

    def step(session=None):
        with torch.autocast("cpu", torch.bfloat16):
            return networks.step(copy.deepcopy(model), x, session)

    plain = step()
    assert same_gradients(plain, step(offload(model, queue_bytes=1 << 20)))


def test_an_in_place_change_while_it_waits_is_an_error_of_autograd():
    backend, x = Slow(), leaf(1000)
    with offload(backend=backend, queue_bytes=1 << 20):
        h = x * 2
        y = h.sin().sum()
        h.add_(1)
        backend.go.set()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_an_error_in_the_thread_is_raised_in_backward_with_its_traceback():
    class Broken(NativeBackend):
        def compress(self, *arguments):
            raise OSError("no compressor")

    x = leaf(1000)
    with offload(backend=Broken(), queue_bytes=1 << 20):
        y = x.sin().sum() + (x * 2).cos().sum()
    with pytest.raises(OSError, match="no compressor") as error:
        y.backward()
    assert any(entry.name == "compress" for entry in error.traceback)


class AwkwardError(OSError):
    def __new__(cls, device, problem):
        return super().__new__(cls, f"{device}: {problem}")

    def __init__(self, device, problem):
        super().__init__(f"{device}: {problem}")


@pytest.mark.parametrize(
    ("kind", "arguments"), [(OSError, ("none",)), (FrameError, (Status.RAW_CRC, "no"))]
)
def test_a_step_whose_error_was_caught_can_be_freed(kind, arguments):
    class Broken(NativeBackend):
        def compress(self, *_):
            raise kind(*arguments)

    def step():
        x = leaf(1000)
        with offload(backend=Broken(), queue_bytes=1 << 20):
            y = x.sin().sum() + (x * 2).cos().sum()
        with pytest.raises(kind) as caught:
            y.backward()
        assert str(caught.value) == str(kind(*arguments))
        return weakref.ref(y)

    graph = step()
    gc.collect()
    assert graph() is None


def test_an_error_that_cannot_be_copied_is_raised_itself():
    error = AwkwardError("board", "gone")
    assert copied(error) is error


def test_several_threads_in_one_session():
    """Autograd runs per thread; hooks do too, so each enters a session of its own."""
    wrong = []

    def work(seed):
        x = torch.full((2000,), float(seed), requires_grad=True)
        for _ in range(10):
            x.grad = None
            with offload(queue_bytes=1 << 16):
                y = (x * 2).sin().sum()
            y.backward()
            if not torch.equal(x.grad, 2 * (2 * x.detach()).cos()):
                wrong.append(seed)

    run_threads(work, 4)
    assert not wrong


def test_spans_die_with_their_graph():
    frames = []

    class Counting(ReferenceBackend):
        def compress(self, *arguments):
            frame = super().compress(*arguments)
            frames.append(weakref.ref(frame))
            return frame

    x = leaf(1000)
    with offload(backend=Counting(), queue_bytes=1 << 20) as s:
        y = (x * 2).exp().tanh().sum()
    s.report()
    y.backward()
    del y
    until(lambda: not any(frame() for frame in frames))
    assert frames
    assert not any(frame() for frame in frames)


def test_a_forked_child_trains_in_a_session_of_its_own():
    """And is told so if it goes on with the parent's, whose thread it has not."""
    x = leaf(1000)
    shared = offload(queue_bytes=1 << 20)

    def step(session):
        x.grad = None
        with session:
            y = (x * 2).sin().sum()
        y.backward()
        return torch.equal(x.grad, 2 * (2 * x.detach()).cos())

    assert step(shared)
    child = os.fork()
    if not child:
        code = 1
        with contextlib.suppress(BaseException):
            torch.set_num_threads(1)  # as a data loader's: OpenMP's threads stay with the parent
            good = step(offload(queue_bytes=1 << 20))
            try:
                step(shared)
            except RuntimeError as error:
                code = 0 if good and "another process" in str(error) else 2
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

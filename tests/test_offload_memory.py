"""`actdma.offload`: storages are packed once, and freed."""

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

import networks
from actdma.backend import ReferenceBackend
from sessions import leaf, offload, records

MODIFIED = "one of the variables needed for gradient computation has been modified by an inplace"


class Counting(ReferenceBackend):
    """A backend that remembers its frames weakly."""

    def __init__(self):
        self.frames = []

    def compress(self, *arguments):
        frame = super().compress(*arguments)
        self.frames.append(weakref.ref(frame))
        return frame

    def alive(self):
        gc.collect()
        return sum(frame() is not None for frame in self.frames)


# Sharing


def test_a_storage_saved_twice_is_packed_once():
    x = leaf(50)
    with offload() as session:
        h = x * 2
        y = h.sin() + h.cos() + h * h
    y.sum().backward()
    assert [r.saves for r in records(session)] == [4]


def test_views_share_the_packed_span_of_their_storage():
    x = leaf(6, 10)
    with offload() as session:
        h = x * 2
        y = h.sin().sum() + h[2:4].cos().sum() + h.t().exp().sum() + h.view(3, 20).tan().sum()
    y.backward()
    sizes = [r.raw_bytes for r in records(session)]
    assert sizes.count(240) == 3  # h, and the results of exp and tan, which save these


def test_a_view_alone_packs_the_bytes_it_touches():
    x = leaf(1000, 10)
    with offload() as session:
        y = (x * 2)[10:20].sin().sum()
    y.backward()
    assert [r.raw_bytes for r in records(session)] == [400]


def test_interleaved_siblings_share_their_storage():
    x = leaf(100, 30)
    with offload() as session:
        q, k, v = (x * 2).view(100, 3, 10).unbind(1)
        y = (q.sin() + k.sin() + v.sin()).sum()
    y.backward()
    assert [(r.raw_bytes, r.saves) for r in records(session)] == [(12000, 3)]


def test_a_new_version_is_packed_again():
    x = leaf(50)
    with offload() as session:
        h = x * 2
        earlier = h.sin()
        h.add_(1)
        y = h.cos()
    y.sum().backward()
    assert len(records(session)) == 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        earlier.sum().backward()
    assert torch.equal(x.grad, -2 * (2 * x.detach() + 1).sin())


def test_consumers_share_what_was_decoded_while_it_is_alive():
    x = leaf(50)
    given = []

    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, h):
            ctx.save_for_backward(h)
            return h.clone()

        @staticmethod
        def backward(ctx, gradient):
            given.append(ctx.saved_tensors[0])
            return gradient

    with offload() as session:
        h = x * 2
        y = Keep.apply(h) + Keep.apply(h)
    y.sum().backward()
    assert given[0].data_ptr() == given[1].data_ptr()
    assert [r.decompressions for r in records(session)] == [1]


# Lifetimes


def test_originals_are_freed():
    x = leaf(1000)
    with offload():
        h = x * 2
        y = h.sin().sum()
        storage = StorageWeakRef(h.untyped_storage())
        del h
        z = x.exp()  # the storage saved last is packed when another one is saved
        assert storage.expired()
        storage = StorageWeakRef(z.untyped_storage())
        del z
    assert storage.expired()
    y.backward()


def test_packed_copies_are_freed_with_the_last_node():
    backend, x = Counting(), leaf(1000)
    with offload(nn.Identity(), backend=backend):
        a, b = x.sin().sum(), x.cos().sum()
    a.backward()
    assert backend.alive() == 1
    b.backward()
    assert backend.alive() == 0


def test_a_graph_dropped_without_backward_leaks_nothing():
    backend, x = Counting(), leaf(1000)
    with offload(backend=backend) as session:
        # exp, tanh and softmax save their own results: the cycle that must not be.
        y = (x * 2).exp().tanh().softmax(0)
        gc.disable()
        try:
            del y
            assert not any(frame() for frame in backend.frames)
        finally:
            gc.enable()
    assert len(records(session)) == 2  # the last one's graph was gone before it was packed


def test_results_of_operators_that_are_kept_make_no_cycle():
    x = leaf(10)
    gc.disable()
    try:
        with offload(min_bytes=1 << 20):
            y = x.exp()
        storage = StorageWeakRef(y.untyped_storage())
        del y
        assert storage.expired()
    finally:
        gc.enable()


def test_an_exception_in_forward_leaks_nothing():
    backend, model = Counting(), networks.relu_cnn()
    session = offload(model, backend=backend)
    with pytest.raises(RuntimeError), session:
        model(networks.images(size=20))  # does not fit the last layer
    assert backend.frames
    assert backend.alive() == 0
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    (leaf(1000) * 2).sin()
    assert len(records(session)) == len(backend.frames)


def test_a_session_is_freed_with_its_graph():
    x = leaf(1000)
    with offload() as session:
        y = (x * 2).sin().sum()
    gone = weakref.ref(session)
    gc.disable()
    try:
        del session
        assert gone() is not None
        y.backward()
        del y
        assert gone() is None
    finally:
        gc.enable()

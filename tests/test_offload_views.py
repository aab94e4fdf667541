"""`actdma.offload`: tensors come back with the same bits, dtype, shape, strides and device."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import torch

import actdma


def through(x, **options):
    """``x`` saved for backward and what backward was given instead."""
    given = []

    class Save(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, handle):
            ctx.save_for_backward(x)
            return handle * 1

        @staticmethod
        def backward(ctx, gradient):
            given.extend(ctx.saved_tensors)
            return None, gradient

    with actdma.offload(
        **{"backend": "native", "min_bytes": 1, "verify": True, **options}
    ) as session:
        y = Save.apply(x, torch.zeros(1, requires_grad=True))
    y.backward()
    return given[0], session


def bits(t):
    """The logical values as bytes."""
    flat = t.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return flat.view(-1).view(torch.uint8).numpy().tobytes()


def assert_same(a, b):
    assert (a.dtype, a.shape, a.stride(), a.device) == (b.dtype, b.shape, b.stride(), b.device)
    assert (a.is_conj(), a.is_neg()) == (b.is_conj(), b.is_neg())
    assert bits(a) == bits(b)


LAYOUTS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.t(),
    "strided": lambda t: t[1::2, ::3],
    "narrow": lambda t: t[3:5],
    "column": lambda t: t[:, 2],
    "expanded": lambda t: t[:, :1].expand(-1, 7),
    "scalar": lambda t: t[2, 3],
    "channels_last": lambda t: t.reshape(2, 4, 3, 4).to(memory_format=torch.channels_last),
    "overlapping": lambda t: t.as_strided((5, 4), (2, 1), 3),
    "permuted": lambda t: t.reshape(2, 4, 12).permute(2, 0, 1),
}
DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.complex64,
    torch.complex128,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float8_e4m3fn,
]


def random_tensor(dtype):
    """8 x 12 items of random bits, so NaN payloads and denormals too; half of the rows zero."""
    raw = np.random.default_rng(0).integers(0, 256, 96 * dtype.itemsize, dtype=np.uint8)
    if dtype is torch.bool:
        raw &= 1
    raw[raw.size // 2 :] = 0
    return torch.from_numpy(raw).view(dtype).reshape(8, 12)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_come_back_as_they_were(dtype, layout):
    x = LAYOUTS[layout](random_tensor(dtype))
    got, session = through(x)
    assert_same(got, x)
    assert session.report().bit_identical()
    assert got.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


@pytest.mark.parametrize("make", [torch.conj, lambda x: x.conj().imag, torch._neg_view])
def test_conjugate_and_negative_bits(make):
    x = make(torch.randn(6, 5, dtype=torch.complex64))
    assert_same(through(x)[0], x)


def test_a_tensor_at_an_odd_address():
    x = torch.frombuffer(bytearray(range(201)), dtype=torch.float32, count=50, offset=1)
    assert x.data_ptr() % 4
    assert_same(through(x)[0], x)


def test_a_copy_lies_in_its_cache_line_like_the_original():
    x = torch.randn(1000)[5:]
    assert through(x)[0].data_ptr() % 64 == x.data_ptr() % 64


@st.composite
def views(draw):
    """A tensor and a view of it by random slices, permutation and expansion."""
    shape = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    dtype = draw(st.sampled_from([torch.uint8, torch.bfloat16, torch.float32, torch.complex64]))
    t = torch.arange(int(np.prod(shape)) * dtype.itemsize, dtype=torch.int64).to(torch.uint8)
    t = t.view(dtype).reshape(shape)
    for axis, size in enumerate(shape):
        start = draw(st.integers(0, size - 1))
        t = t.narrow(axis, start, draw(st.integers(1, size - start)))
        t = t[(slice(None),) * axis + (slice(None, None, draw(st.integers(1, 3))),)]
    t = t.permute(draw(st.permutations(range(t.ndim))))
    if draw(st.booleans()):
        t = t.unsqueeze(0).expand(draw(st.integers(1, 4)), *t.shape)
    return t


@hypothesis.given(views())
@hypothesis.settings(max_examples=150, deadline=None)
def test_any_view_comes_back(x):
    assert_same(through(x)[0], x)

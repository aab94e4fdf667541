"""Places in windows in the stead of max pooling's indices: in C++ and by PyTorch, and back."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.nn import functional as F

from actdma.native import _native
from actdma.offloading import windows
from actdma.offloading.windows import Window

ORDERS = (torch.contiguous_format, torch.channels_last)
SIZES = (8, 2, 2, 2, 2, 0, 0, 1, 1)  # width of the map, kernel, stride, padding, dilation

pairs = {
    "kernel": st.tuples(st.integers(1, 5), st.integers(1, 5)),
    "stride": st.tuples(st.integers(1, 4), st.integers(1, 4)),
    "padding": st.tuples(st.integers(0, 2), st.integers(0, 2)),
    "dilation": st.tuples(st.integers(1, 3), st.integers(1, 3)),
}


@given(**pairs, order=st.sampled_from(ORDERS), ceil=st.booleans(), seed=st.integers(0, 99))
def test_both_ways_give_the_same_codes_and_the_very_indices(order, ceil, seed, **sizes):
    sizes = {name: sizes[name] for name in pairs}
    assume(all(2 * p <= k for p, k in zip(sizes["padding"], sizes["kernel"], strict=True)))
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(4, (2, 3, 17, 70), generator=generator).float().to(memory_format=order)
    kernel, *others = sizes.values()
    indices = F.max_pool2d(x, kernel, *others, ceil_mode=ceil, return_indices=True)[1]
    window = Window(**sizes, width=70)
    assert window.possible
    code = window.encode(indices)
    expected = window._by_torch(indices)
    assert torch.equal(code, expected)
    assert code.stride() == indices.stride()
    back = torch.empty_like(indices)
    window.decode(code, back)
    assert torch.equal(back, indices)


@pytest.mark.parametrize("threads", [1, 3])
def test_many_lines_are_shared_out_to_threads(threads):
    shape, places = (5, 1000, 40, 1), np.random.default_rng(0).integers(0, 4, 200_000)
    codes, indices = places.astype(np.uint8), np.empty(places.size, np.int64)
    _native.window_indices(codes, indices, shape, (80, *SIZES[1:]), threads)
    back = np.empty_like(codes)
    _native.window_codes(indices, back, shape, (80, *SIZES[1:]), threads)
    assert np.array_equal(back, codes)
    row, column = np.divmod(np.arange(40_000), 40)
    assert np.array_equal(
        indices[:40_000],
        (2 * row + places[:40_000] // 2) * 80 + 2 * column + places[:40_000] % 2,
    )


def test_any_code_and_any_index_are_survived():
    shape, rng = (3, 4, 5, 2), np.random.default_rng(1)
    codes, indices = rng.integers(0, 256, 120).astype(np.uint8), np.empty(120, np.int64)
    _native.window_indices(codes, indices, shape, SIZES)
    indices[:] = rng.integers(-(2**63), 2**63 - 1, 120)
    _native.window_codes(indices, codes, shape, SIZES)


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((1, 2, 2, 2), SIZES),
        ((2**62, 4, 1, 1), SIZES),
        ((1, 2, 2, 1), (0, *SIZES[1:])),
        ((1, 2, 2, 1), (8, 17, 16, *SIZES[3:])),
        ((1, 2, 2, 1), (8, 2, 9, *SIZES[3:])),
        ((1, 2, 2, 1), (8, 2, 2, 0, 2, *SIZES[5:])),
        ((1, 2, 2, 1), (8, 2, 2, 2, 2, -1, *SIZES[6:])),
        ((1, 2, 2, 1), (2**40, *SIZES[1:])),
        ((1, 2, 2, 1), (8, 2, 2, 2**62, *SIZES[4:])),
    ],
)
def test_what_is_no_array_of_windows(shape, sizes):
    indices, codes = np.zeros(4, np.int64), np.zeros(4, np.uint8)
    with pytest.raises(ValueError, match=r"windows|shape"):
        _native.window_codes(indices, codes, shape, sizes)
    with pytest.raises(ValueError, match=r"windows|shape"):
        _native.window_indices(codes, indices, shape, sizes)


def test_without_native_code(monkeypatch):
    monkeypatch.setattr(windows, "_native", lambda: None)
    x = torch.randn(2, 3, 9, 11)
    indices = F.max_pool2d(x, (3, 2), padding=1, dilation=(1, 2), return_indices=True)[1]
    window = Window((3, 2), (3, 2), (1, 1), (1, 2), width=11)
    back = torch.empty_like(indices)
    window.decode(window.encode(indices), back)
    assert torch.equal(back, indices)

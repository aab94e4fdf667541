"""The weight gradient of block-sparse inputs, and the linear layer that holds such an input."""

from __future__ import annotations

import dataclasses
import gc
import itertools
import weakref

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import actdma
from actdma.codecs import Bsr
from actdma.codecs.bsr import Parts, parts, stage, unstage
from actdma.native import _native
from actdma.native import weight_gradient as native_weight_gradient
from actdma.offloading import block_sparse
from actdma.offloading.block_sparse import BlockSparseLinear, weight_gradient

ISAS = _native.isas()
BLOCKS = (4, 8, 16, 32)
# Rows, columns and outputs: whole blocks and panels, less, more, and over one chunk of rows.
SHAPES = ((64, 64, 96), (37, 53, 7), (1, 1, 1), (130, 35, 49), (1100, 40, 50))


@pytest.fixture(autouse=True)
def _as_it_was(one_thread):
    yield
    _native.set_isa(ISAS[-1])


def in_blocks(matrix: torch.Tensor, kept: np.ndarray, block: int) -> Parts:
    """The blocks of ``matrix`` that ``kept`` says (bool, block rows x block columns)."""
    blocks = torch.from_numpy(stage(matrix.double().numpy(), block)).to(matrix.dtype)
    crow = np.concatenate([[0], kept.sum(1).cumsum()])
    return Parts(
        torch.from_numpy(crow),
        torch.from_numpy(np.nonzero(kept)[1].copy()),
        blocks[torch.from_numpy(kept)],
        (block * kept.shape[0], block * kept.shape[1]),
    )


def dense(matrix: torch.Tensor, kept: np.ndarray, block: int) -> torch.Tensor:
    """``matrix`` with zeros where blocks were dropped."""
    blocks = stage(matrix.double().numpy(), block)
    blocks[~kept] = 0
    return torch.from_numpy(unstage(blocks, tuple(matrix.shape)))


def mask(shape: tuple[int, int], block: int, density: float, seed: int = 0) -> np.ndarray:
    size = [-(-n // block) for n in shape]
    return np.random.default_rng(seed).random(size) < density


def example(rows: int, columns: int, outputs: int, block: int, density: float, dtype=torch.float32):
    """Gradient, parts, and what is to come out (float64)."""
    generator = torch.Generator().manual_seed(rows + columns)
    x = torch.randn(rows, columns, generator=generator, dtype=torch.float64).to(dtype)
    gradient = torch.randn(rows, outputs, generator=generator, dtype=torch.float64).to(dtype)
    kept = mask((rows, columns), block, density)
    expected = gradient.double().t() @ dense(x, kept, block)
    return gradient, in_blocks(x, kept, block), expected


# The largest error of rounding to a dtype, relative.
ROUNDING = {
    torch.float16: 2**-11,
    torch.bfloat16: 2**-8,
    torch.float32: 2**-24,
    torch.float64: 2**-53,
}


def close(result: torch.Tensor, expected: torch.Tensor, rows: int) -> None:
    """Within what sums of ``rows`` products of normal numbers, and then they, are rounded by."""
    sums = ROUNDING[torch.float64 if result.dtype == torch.float64 else torch.float32]
    error = (result.double() - expected).abs()
    assert (error <= ROUNDING[result.dtype] * expected.abs() + 8 * rows * sums).all()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_instruction_set_gives_the_product(isa, block, dtype):
    _native.set_isa(isa)
    for shape, density in itertools.product(SHAPES, (0, 0.3, 1)):
        rows, columns, _ = shape
        gradient, saved, expected = example(*shape, block, density, dtype)
        result = weight_gradient(gradient, saved, (rows, columns))
        assert result.dtype == dtype
        close(result, expected, rows)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_reference_gives_the_product(dtype, monkeypatch):
    if dtype in (torch.float32, torch.bfloat16):
        monkeypatch.setattr(block_sparse, "_native_product", lambda: None)
    for shape, block, density in itertools.product(SHAPES, BLOCKS, (0, 0.3, 1)):
        rows, columns, _ = shape
        gradient, saved, expected = example(*shape, block, density, dtype)
        result = weight_gradient(gradient, saved, (rows, columns))
        assert result.dtype == dtype
        assert result.is_contiguous()
        close(result, expected, rows)


def test_half_precision_is_rounded_once():
    # Summed in bfloat16, 256 ones would stay at 256 from there on.
    ones = torch.ones(600, 4, dtype=torch.bfloat16)
    saved = in_blocks(ones, np.ones((150, 1), bool), 4)
    assert (weight_gradient(ones, saved, (600, 4)) == 600).all()
    half, wide = ones.half(), saved._replace(values=saved.values.half())
    assert (weight_gradient(half, wide, (600, 4)) == 600).all()
    # 257 and 259 lie halfway: to even.
    tie = torch.tensor([[256.0, 258.0], [1.0, 1.0]], dtype=torch.bfloat16)
    saved = in_blocks(torch.ones(2, 1, dtype=torch.bfloat16), np.ones((1, 1), bool), 4)
    assert weight_gradient(tie, saved, (2, 1)).tolist() == [[256.0], [260.0]]


@pytest.mark.parametrize("isa", ISAS)
def test_threads_give_the_same_bits(isa):
    _native.set_isa(isa)
    for shape, block in (((1100, 300, 200), 8), ((70, 40, 5), 4)):
        gradient, saved, _ = example(*shape, block, 0.4)
        results = []
        for threads in (1, 2, 7):
            torch.set_num_threads(threads)
            results.append(weight_gradient(gradient, saved, shape[:2]))
        assert torch.equal(results[0], results[1])
        assert torch.equal(results[0], results[2])


def test_denormals_do_not_hang_on_the_caller():
    tiny = torch.full((8, 8), 1e-40)
    saved = in_blocks(torch.ones(8, 8), np.ones((1, 1), bool), 8)
    expected = weight_gradient(tiny, saved, (8, 8))
    assert (expected > 0).all()
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor flushes no denormals")
    try:
        result = weight_gradient(tiny, saved, (8, 8))
    finally:
        torch.set_flush_denormal(False)
    assert torch.equal(result, expected)


@pytest.mark.parametrize("isa", ISAS)
def test_dropped_blocks_and_padding_stop_nan_and_infinity(isa):
    _native.set_isa(isa)
    rows, columns, outputs, block = 22, 21, 20, 8
    gradient, saved, _ = example(rows, columns, outputs, block, 1)
    x = torch.from_numpy(unstage(saved.values.reshape(3, 3, block, block).numpy(), (rows, columns)))
    kept = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 0]], bool)
    x[0, 0], x[20, 9] = torch.inf, torch.nan
    gradient[10, 3] = torch.nan  # a block row of which nothing is kept
    gradient[1, 5] = torch.inf  # none of columns 8 to 15 is kept there
    saved = in_blocks(x, kept, block)
    saved.values[3, 6:] = torch.nan  # padding
    saved.values[1, :, 5:] = torch.inf
    result = weight_gradient(gradient, saved, (rows, columns))
    finite = torch.ones(outputs, columns, dtype=torch.bool)
    finite[:, [0, 9]] = False
    finite[5, :8] = finite[5, 16:] = False
    assert torch.equal(result.isfinite(), finite)


def test_parts_of_a_frame():
    x = torch.randn(70, 45)
    frame = actdma.compress(x, Bsr(16, density=0.4), frame_bytes=8192)
    gradient = torch.randn(70, 24)
    expected = gradient.double().t() @ actdma.decompress(frame).double()
    close(weight_gradient(gradient, parts(frame), (70, 45)), expected, 70)


def test_empty():
    saved = in_blocks(torch.ones(8, 8), np.ones((1, 1), bool), 8)
    assert weight_gradient(torch.ones(8, 0), saved, (8, 8)).shape == (0, 8)
    assert torch.equal(
        weight_gradient(
            torch.ones(0, 3), parts(actdma.compress(torch.ones(0, 5), Bsr(8, density=1))), (0, 5)
        ),
        torch.zeros(3, 5),
    )


def changed(saved: Parts, name: str, at: int, value: int) -> Parts:
    copy = getattr(saved, name).clone()
    copy[at] = value
    return saved._replace(**{name: copy})


HOSTILE = {
    "first crow index": (lambda s: changed(s, "crow_indices", 0, 1), "first crow index is 1"),
    "falling": (lambda s: changed(s, "crow_indices", 2, 1), "crow index 2 is 1"),
    "negative crow": (lambda s: changed(s, "crow_indices", 1, -1), "crow index 1 is -1"),
    "beyond the blocks": (lambda s: changed(s, "crow_indices", 1, 7), "crow index 1 is 7"),
    "huge crow": (lambda s: changed(s, "crow_indices", 1, 2**62), "crow index 1 is"),
    "last crow index": (lambda s: changed(s, "crow_indices", 3, 5), "last crow index is 5"),
    "few crow indices": (lambda s: s._replace(crow_indices=s.crow_indices[:3]), "3 crow indices"),
    "no crow indices": (lambda s: s._replace(crow_indices=s.crow_indices[:0]), "0 crow indices"),
    "column": (lambda s: changed(s, "col_indices", 5, 2), "column index 5, in block row 2, is 2"),
    "negative column": (lambda s: changed(s, "col_indices", 0, -1), "column index 0"),
    "huge column": (lambda s: changed(s, "col_indices", 0, 2**62), "column index 0"),
    "twice": (lambda s: changed(s, "col_indices", 1, 0), "column index 1, in block row 0, is 0"),
    "few columns": (lambda s: s._replace(col_indices=s.col_indices[:5]), "5 column indices"),
    "few values": (lambda s: s._replace(values=s.values[:5]), "6 column indices"),
    "oblong": (lambda s: s._replace(values=s.values[:, :4]), "kept blocks, b, b"),
    "size": (lambda s: s._replace(size=(24, 24)), "expected \\(24, 16\\)"),
}


@pytest.mark.parametrize("damage", HOSTILE)
def test_hostile_parts(damage, monkeypatch):
    gradient, saved, _ = example(20, 16, 12, 8, 1)
    hurt, message = HOSTILE[damage]
    with pytest.raises(ValueError, match=message):
        weight_gradient(gradient, hurt(saved), (20, 16))
    monkeypatch.setattr(block_sparse, "_native_product", lambda: None)
    with pytest.raises(ValueError):  # noqa: PT011
        weight_gradient(gradient, hurt(saved), (20, 16))


def test_random_indices_do_no_harm():
    gradient, saved, _ = example(100, 90, 12, 8, 0.5)
    rng = np.random.default_rng(0)
    for _ in range(300):
        name = ("crow_indices", "col_indices")[rng.integers(2)]
        at, value = rng.integers(len(getattr(saved, name))), int(rng.integers(-2, 15))
        if getattr(saved, name)[at] != value:
            hurt = changed(saved, name, at, value)
            try:
                result = weight_gradient(gradient, hurt, (100, 90))
            except ValueError:
                continue
            assert name == "col_indices"  # another block column of the same row is as good
            assert result.isfinite().all()


def test_bad_arguments():
    gradient, saved, _ = example(20, 16, 12, 8, 1)
    with pytest.raises(TypeError, match=r"float64, the kept blocks are torch\.float32"):
        weight_gradient(gradient.double(), saved, (20, 16))
    with pytest.raises(ValueError, match=r"\(20, 12\), expected \(21, outputs\)"):
        weight_gradient(gradient, saved, (21, 16))
    pairs = torch.ones(10, 2, 2)
    odd = Parts(torch.arange(11), torch.zeros(10, dtype=torch.int64), pairs, (20, 2))
    with pytest.raises(ValueError, match="block is 2, allowed are 4, 8, 16 and 32"):
        weight_gradient(gradient, odd, (20, 2))
    arrays = Parts(*(part.numpy() for part in saved[:3]), saved.size)
    gradient, out = gradient.numpy(), np.empty((12, 16), np.float32)
    with pytest.raises(TypeError, match="float32, float32 and float64"):
        native_weight_gradient(gradient, arrays, out.astype(np.float64))
    with pytest.raises(TypeError, match="int32 and int64, not int64"):
        native_weight_gradient(
            gradient, arrays._replace(crow_indices=arrays.crow_indices.astype(np.int32)), out
        )
    for bad in (out[:11], out[0]):
        with pytest.raises(ValueError, match="gradient and out are of shapes"):
            native_weight_gradient(gradient, arrays, bad)
    for threads in (0, -1, 1.5, None):
        with pytest.raises(ValueError, match="threads is"):
            native_weight_gradient(gradient, arrays, out, threads)
    sizes = {"rows": 20, "outputs": 12, "columns": 16, "block": 8, "element_bytes": 4}
    for name, value in (
        ("rows", 2**63),
        ("outputs", 2**62 + 12),
        ("columns", 17),
        ("element_bytes", 3),
    ):
        with pytest.raises(ValueError):  # noqa: PT011
            _native.weight_gradient(gradient, *arrays[:3], out, **{**sizes, name: value})


@dataclasses.dataclass
class Pruned:
    """What `BlockSparseLinear` holds, for the tests: any dtype, and a mask that is given."""

    held: Parts

    def parts(self) -> Parts:
        return self.held


def pruning(kept: np.ndarray, block: int):
    return lambda x: Pruned(in_blocks(x, kept, block))


class Framed:
    """A frame of codec bsr."""

    def __init__(self, x: torch.Tensor, density: float = 0.4) -> None:
        self.frame = actdma.compress(x, Bsr(8, density=density))

    def parts(self) -> Parts:
        return parts(self.frame)


def gradients(linear, x, weight, bias):
    """The result, and the gradients of x, weight and bias, of fresh copies."""
    leaves = [t.detach().clone().requires_grad_() for t in (x, weight, bias)]
    y = linear(*leaves)
    generator = torch.Generator().manual_seed(5)
    y.backward(torch.randn(y.shape, generator=generator, dtype=torch.float64).to(y.dtype))
    return (y.detach(), *(leaf.grad for leaf in leaves))


class PrunedLinear(torch.autograd.Function):
    """The dense reference: all is plain, but for the weight gradient's input."""

    @staticmethod
    def forward(ctx, x, weight, bias, pruned):
        ctx.save_for_backward(pruned, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, gradient):
        pruned, weight = ctx.saved_tensors
        flat = gradient.reshape(-1, gradient.shape[-1])
        return gradient @ weight, flat.t() @ pruned, flat.sum(0), None


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.filterwarnings("ignore:Sparse")
def test_linear_on_pruned_input(dtype):
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(s, dtype=dtype) for s in ((3, 7, 20), (12, 20), (12,)))
    kept = mask((21, 20), 4, 0.4)
    pruned = dense(x.reshape(-1, 20), kept, 4).to(dtype)
    found = gradients(lambda *t: BlockSparseLinear.apply(*t, pruning(kept, 4)), x, weight, bias)
    expected = gradients(lambda *t: PrunedLinear.apply(*t, pruned), x, weight, bias)
    plain = gradients(F.linear, x, weight, bias)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-4
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    for got, wanted in zip(
        (found[0], found[1], found[3]), (plain[0], plain[1], plain[3]), strict=True
    ):
        assert torch.equal(got, wanted)
    assert not torch.allclose(found[2], plain[2])


@pytest.mark.filterwarnings("ignore:Sparse")
def test_gradcheck_where_nothing_is_dropped():
    torch.manual_seed(0)
    x, weight, bias = (
        torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((2, 3, 5), (4, 5), (4,))
    )
    keep = pruning(np.ones((2, 2), bool), 4)
    assert torch.autograd.gradcheck(lambda *t: BlockSparseLinear.apply(*t, keep), (x, weight, bias))
    assert torch.autograd.gradcheck(lambda *t: BlockSparseLinear.apply(*t, None, keep), (x, weight))


@pytest.mark.parametrize("shape", [(20,), (9, 20), (2, 3, 4, 20), (0, 20), (4, 0, 20)])
def test_leading_dimensions(shape):
    x, weight, bias = torch.randn(shape), torch.randn(6, 20), torch.randn(6)
    keep = lambda t: Framed(t, 1.0)  # noqa: E731
    found = gradients(lambda *t: BlockSparseLinear.apply(*t, keep), x, weight, bias)
    torch.testing.assert_close(found, gradients(F.linear, x, weight, bias))


@pytest.mark.parametrize("dtypes", [(torch.float32,) * 3, (torch.bfloat16, torch.float32, None)])
def test_autocast(dtypes):
    x, weight = torch.randn(40, 32, dtype=dtypes[0]), torch.randn(24, 32, dtype=dtypes[1])
    bias = torch.randn(24)
    kept = []

    def keep(t):
        kept.append(Framed(t, 1.0))
        return kept[-1]

    def under_autocast(linear):
        def run(*t):
            with torch.autocast("cpu", torch.bfloat16):
                return linear(*t)

        return run

    sparse = under_autocast(lambda *t: BlockSparseLinear.apply(*t, keep))
    found = gradients(sparse, x, weight, bias)
    plain = gradients(under_autocast(F.linear), x, weight, bias)
    assert [t.dtype for t in found] == [t.dtype for t in plain]
    assert kept[0].parts().values.dtype == torch.bfloat16
    for i in (0, 1, 3):
        assert torch.equal(found[i], plain[i])
    torch.testing.assert_close(found[2], plain[2], rtol=1e-2, atol=1e-2)
    with torch.autocast("cpu", torch.bfloat16):  # a backward pass inside
        again = gradients(sparse, x, weight, bias)
    torch.testing.assert_close(again, found, rtol=0, atol=0)


def test_autocast_leaves_its_cache_alone():
    weight = torch.randn(8, 16, requires_grad=True)
    x = torch.randn(4, 16)
    with torch.autocast("cpu", torch.bfloat16):
        BlockSparseLinear.apply(x, weight, None, Framed)
        F.linear(x, weight).sum().backward()
    assert weight.grad is not None


def test_what_is_held():
    x, weight = torch.randn(64, 32, requires_grad=True), torch.randn(16, 32, requires_grad=True)
    frames = []

    def keep(t):
        kept = Framed(t)
        frames.append(weakref.ref(kept))
        return kept

    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        y = BlockSparseLinear.apply(x, weight, None, keep)
    assert [t.shape for t in saved] == [weight.shape]
    y.sum().backward(retain_graph=True)
    first = weight.grad.clone()
    y.sum().backward()
    assert torch.equal(weight.grad, 2 * first)
    gc.collect()
    assert frames[0]() is None, "it outlives the backward pass"
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()


def test_what_needs_no_gradient_is_not_kept():
    x, weight = torch.randn(64, 32, requires_grad=True), torch.randn(16, 32)
    y = BlockSparseLinear.apply(x, weight, None, lambda t: pytest.fail("not needed"))
    y.sum().backward()
    plain = torch.autograd.grad(F.linear(x, weight).sum(), x)
    assert torch.equal(x.grad, *plain)
    x, weight = x.detach(), weight.requires_grad_()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        y = BlockSparseLinear.apply(x, weight, None, Framed)
    assert saved == []
    y.sum().backward()
    assert weight.grad is not None


def test_differentiated_twice():
    x, weight = torch.randn(8, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
    y = BlockSparseLinear.apply(x, weight, None, Framed)
    (first,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()

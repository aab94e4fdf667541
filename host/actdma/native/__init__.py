"""The codec and the block-sparse product for the CPU: C++ with AVX-512, AVX2 or NEON where the
processor has them."""

from __future__ import annotations

import dataclasses
import itertools
import numbers

import numpy as np

from ..arrays import Layout, numpy_dtype
from ..backend import descriptors, frame_memory, packets_into, used_memory
from ..codecs import Bsr, Coding, Lossy
from ..codecs.bsr import Parts, matrix_shape
from ..frame import (
    FRAME_BYTES,
    BsrShape,
    Codec,
    Descriptor,
    DType,
    Frame,
    FrameError,
    Status,
)
from . import _native

# From here on what is written goes past the caches. Compressed data is not read again soon, and
# leaves them to the network; what was decompressed is, unless it is more than they hold.
_PAST_CACHES_COMPRESSED = 1 << 20  # raw bytes
_PAST_CACHES_DECOMPRESSED = 32 << 20


@dataclasses.dataclass(frozen=True)
class MeasuredMatrix:
    """A matrix as it lies in memory, to be compressed with codec bsr.

    ``elements``: uint8, 1-D; ``rows`` and ``columns`` of it; ``norms``: float32, those of its
    blocks; ``size``: bytes in block order; ``zeros``: elements of these without any bit set.
    """

    elements: np.ndarray
    rows: int
    columns: int
    norms: np.ndarray
    zeros: int
    size: int


class NativeBackend:
    """The codec on the CPU, as a backend. Stateless; works without the GIL.

    ``threads``: how many work on the frames of a tensor, besides what the caller does in threads of
    its own; the bytes are the same. Smaller frames (1 MiB) keep them busy with smaller tensors.
    """

    name = "native"

    def __init__(self, threads: int = 1) -> None:
        if not (isinstance(threads, numbers.Integral) and threads > 0):
            raise ValueError(f"threads is {threads!r}, allowed are positive integers")
        self.threads = int(threads)

    def prepare(
        self, codec: Lossy, data: np.ndarray, layout: Layout
    ) -> tuple[np.ndarray | MeasuredMatrix, Coding]:
        """As `Lossy.prepare`, for this backend's `compress`, which reads a matrix' kept blocks from
        where they lie: they need not be put in order."""
        if not isinstance(codec, Bsr) or not data.size:
            return codec.prepare(data, layout)
        shape = codec.shape(layout)
        rows, columns = matrix_shape(layout.shape)
        norms = np.empty(-(-rows // shape.block) * shape.columns, np.float32)
        zeros = _native.measure_blocks(
            data, rows, columns, shape.parameters[0], norms, self.threads
        )
        size = norms.size * shape.block_bytes
        padding = (size - data.size) // layout.dtype.itemsize
        matrix = MeasuredMatrix(data, rows, columns, norms, zeros + padding, size)
        return matrix, codec.coding(shape, norms)

    def compress(
        self,
        data: np.ndarray | MeasuredMatrix,
        dtype: DType,
        codec: Codec | Coding,
        frame_bytes: int = FRAME_BYTES,
        into: np.ndarray | None = None,
    ) -> Frame:
        """See `Backend.compress`; fastest into memory that begins at a multiple of 64."""
        plan = list(descriptors(data.size, dtype, codec, frame_bytes))
        memory = frame_memory(plan, into)
        heads = b"".join(descriptor.pack() for descriptor in plan)
        if isinstance(data, MeasuredMatrix):
            lengths, zeros = self._encode_matrix(data, heads, memory), data.zeros
        else:
            lengths, zeros = _native.encode_frames(
                data, heads, memory, data.size >= _PAST_CACHES_COMPRESSED, self.threads
            )
        offsets = tuple(itertools.accumulate(lengths, initial=0))
        memory = used_memory(memory, offsets[-1], into)
        return Frame(memory, offsets, data.size, dtype, Codec(plan[0].codec), zeros=zeros)

    def _encode_matrix(self, matrix: MeasuredMatrix, heads: bytes, memory: np.ndarray) -> list[int]:
        return _native.encode_matrix(
            matrix.elements,
            matrix.rows,
            matrix.columns,
            matrix.norms,
            heads,
            memory,
            self.threads,
        )

    def decompress(self, frame: Frame, out: np.ndarray) -> None:
        """Write the data of ``frame`` to ``out`` (uint8, 1-D, C-contiguous, its exact length).

        `FrameError` if the frame is not good; ``out`` is undefined then.
        """
        parts = [part.size for _, _, part in packets_into(frame, out)]
        starts = list(itertools.accumulate(parts, initial=0))
        status = _native.decode_frames(
            frame.data,
            frame.offsets,
            starts,
            out,
            out.size >= _PAST_CACHES_DECOMPRESSED,
            self.threads,
        )
        if status != Status.GOOD:
            raise FrameError(status)

    @staticmethod
    def kept_blocks(
        frame: Frame, descriptors: list[Descriptor]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """See `actdma.codecs.bsr.Gather`."""
        shape = BsrShape.of(descriptors[0].parameters)
        rows = sum(descriptor.raw_bytes for descriptor in descriptors) // shape.row_bytes
        most = frame.nbytes // shape.block_bytes
        crow, col = np.empty(rows + 1, np.int64), np.empty(most, np.int64)
        values = np.empty((most, shape.block, shape.block), numpy_dtype(frame.dtype))
        status, kept = _native.kept_blocks(
            frame.data, frame.offsets, shape.columns, shape.block_bytes, crow, col, values
        )
        if status != Status.GOOD:
            raise FrameError(status)
        return crow, col[:kept], values[:kept]

    def padded_crcs(self, data: np.ndarray, borders: list[int]) -> list[int]:
        """See `actdma.frame.padded_crcs`."""
        return _native.padded_crcs(data, borders, self.threads)

    @staticmethod
    def count_zeros(data: np.ndarray, element_bytes: int) -> int:
        """Elements of 1, 2, 4 or 8 bytes in ``data`` (uint8, 1-D) without any bit set."""
        return _native.count_zeros(data, element_bytes)


def weight_gradient(gradient: np.ndarray, parts: Parts, out: np.ndarray, threads: int = 1) -> None:
    """Write ``gradient.T @ X`` to ``out``, of a matrix X of which ``parts`` are the kept blocks.

    The weight gradient of a linear layer whose saved input was pruned (arXiv 2311.16883).
    ``gradient``: (rows, outputs), that of the layer's result; ``parts``: NumPy arrays, X is (rows,
    columns); ``out``: (outputs, columns). All C-contiguous and float32, or bfloat16 as uint16.
    Blocks that were dropped are not multiplied, so that a NaN or an infinity of ``gradient`` does
    not spread through them. Sums are of float32 and the same with any number of ``threads``;
    bfloat16 is rounded once, to nearest, ties to even. ValueError for parts that are not those of
    such a matrix, TypeError for other dtypes.
    """
    if not (isinstance(threads, numbers.Integral) and threads > 0):
        raise ValueError(f"threads is {threads!r}, allowed are positive integers")
    values, dtypes = parts.values, (np.dtype(np.float32), np.dtype(np.uint16))
    if gradient.dtype not in dtypes or {values.dtype, out.dtype} != {gradient.dtype}:
        raise TypeError(
            f"gradient, values and out are {gradient.dtype}, {values.dtype} and {out.dtype}; they "
            "have to be float32 or (for bfloat16) uint16, all three"
        )
    indices = (parts.crow_indices, parts.col_indices)
    if {i.dtype for i in indices} != {np.dtype(np.int64)}:
        raise TypeError(f"indices are {' and '.join(str(i.dtype) for i in indices)}, not int64")
    if values.ndim != 3 or values.shape[1] != values.shape[2]:
        raise ValueError(f"values are of shape {values.shape}, expected (kept blocks, b, b)")
    if gradient.ndim != 2 or out.ndim != 2 or gradient.shape[1] != out.shape[0]:
        raise ValueError(
            f"gradient and out are of shapes {gradient.shape} and {out.shape}, expected "
            "(rows, outputs) and (outputs, columns)"
        )
    rows, outputs = gradient.shape
    _native.weight_gradient(
        gradient,
        *indices,
        values,
        out,
        rows=rows,
        outputs=outputs,
        columns=out.shape[1],
        block=values.shape[1],
        element_bytes=values.dtype.itemsize,
        threads=int(threads),
    )

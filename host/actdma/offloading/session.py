"""`offload`: saved tensors are compressed while autograd keeps them."""

from __future__ import annotations

import collections
import weakref

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from ..api import backend_of, codec_of
from ..arrays import torch_dtype_code
from ..backend import Backend, descriptors
from ..codecs import takes
from ..frame import BLOCK_BYTES, FRAME_BYTES, Codec, DType
from .modules import ModuleNames
from .packed import Kept, Packed, PackedSpan
from .passing import Parameters, in_rrelu, unsuitable
from .records import Record, Report, environment
from .storages import StorageTable, span_to_pack, touched
from .versions import operator_name


@torch._disable_dynamo
def offload(
    model: nn.Module | None = None,
    *,
    codec: str = "zvc",
    backend: str | Backend = "board",
    min_bytes: int = BLOCK_BYTES,
    frame_bytes: int = FRAME_BYTES,
    verify: bool = False,
    exact: object = None,
    lossy: object = None,
) -> Session:
    """Compress what autograd saves in the ``with`` block until the backward pass asks for it.

    ::

        with actdma.offload(model) as session:
            loss = criterion(model(x), y)
        loss.backward()
        print(session.report())

    Gradients are those of the plain run, bit for bit. The backward pass may run inside or outside
    of the block, more than once, and with ``create_graph``.

    ``model``: its parameters and buffers are never packed, and records name its modules. Without
    it, leaves that require grad count as parameters. ``codec``: that of `actdma.compress`; a tensor
    of a dtype that it does not take goes through "zvc" (`Record.codec` tells). ``backend``: "board"
    (the board of `actdma.open_board`), "native" (the CPU), "reference" (NumPy), or an
    `actdma.backend.Backend`. ``min_bytes``: smaller tensors stay as they are. ``frame_bytes``: raw
    bytes per frame, a multiple of 8192. ``verify``: compare a hash of every tensor when it comes
    back (`Record.bit_identical`); the backward pass ends in `actdma.FrameError` if it differs.
    ``exact`` and ``lossy`` are reserved.

    A storage is packed once for all tensors that share it, in the span of bytes that they touch.
    In-place changes after saving raise autograd's own RuntimeError in the backward pass; changes
    through ``.data``, which autograd does not see either, go unseen. Where forward runs under
    activation checkpointing (`torch.utils.checkpoint`), only the inputs of a checkpointed part are
    saved, so only those are packed: what is inside is computed again. Tensor subclasses (DTensor),
    sparse, nested, quantised, meta and fake tensors stay as they are; `Report.kept` counts them.
    `torch.compile` leaves a function with this block in it uncompiled (and raises if told
    ``fullgraph``); a compiled model may be called in the block.

    Other than without the block: `torch.func.grad` and its kin inside it raise, as PyTorch has no
    hooks there. A backward function that writes to what it saved does not spoil it for others, and
    neither it nor a ``detach_`` after saving raises. What `nn.RReLU` and `functional.rrelu` save
    stays as it is, since PyTorch fills it after saving it; calling `torch.rrelu` or `rrelu_`
    itself, or from TorchScript, gives wrong gradients here, as it does with every hook that copies.

    ValueError for an unknown codec or backend and for sizes that are not allowed;
    NotImplementedError for ``exact`` and ``lossy``.
    """
    for name, value in (("exact", exact), ("lossy", lossy)):
        if value is not None:
            raise NotImplementedError(f"offload's {name}= is reserved for a later version.")
    if min_bytes < 0:
        raise ValueError(f"min_bytes is {min_bytes}, it must not be negative")
    return Session(model, codec, backend, min_bytes, frame_bytes, verify)


class Session:
    """One use of `offload`; a context manager. Entered again, it goes on recording."""

    def __init__(
        self,
        model: nn.Module | None,
        codec: str,
        backend: str | Backend,
        min_bytes: int,
        frame_bytes: int,
        verify: bool,
    ) -> None:
        if not isinstance(model, nn.Module | None):
            raise TypeError(f"expected a torch.nn.Module or None, got {type(model).__name__}")
        codec_of(codec, DType.uint8)  # ValueError for an unknown name
        next(descriptors(0, DType.uint8, Codec.RAW, frame_bytes))  # ValueError for a bad size
        self._codec = codec
        self._backend = backend_of(backend)
        self._min_bytes = min_bytes
        self._frame_bytes = frame_bytes
        self._verify = verify
        self._parameters = Parameters(model)
        self._names = ModuleNames(model)
        self._spans: StorageTable[list[weakref.ref[PackedSpan]]] = StorageTable()
        self._records: list[Record] = []
        self._kept: collections.Counter[str] = collections.Counter()
        self._hooks: saved_tensors_hooks | None = None

    @torch._disable_dynamo
    def __enter__(self) -> Session:
        if self._hooks is not None:
            raise RuntimeError("this offload session is already open")
        hooks = saved_tensors_hooks(self._pack, self._unpack)
        hooks.__enter__()
        self._hooks = hooks  # a cycle with this session until __exit__
        self._parameters.open()
        self._names.open()
        return self

    @torch._disable_dynamo
    def __exit__(self, *exception: object) -> None:
        hooks, self._hooks = self._hooks, None
        hooks.__exit__(*exception)
        self._names.close()
        self._parameters.close()
        self._spans.clear()

    def report(self) -> Report:
        """What was packed so far, and what came back."""
        return Report(list(self._records), environment(self._backend), dict(self._kept))

    @torch._disable_dynamo
    def _pack(self, t: torch.Tensor) -> Packed | Kept:
        reason = unsuitable(t) or ("parameter" if t in self._parameters else None)
        reason = reason or ("rrelu" if in_rrelu() else None)
        if reason is None:
            needed = touched(t)
            if needed[1] - needed[0] >= self._min_bytes:
                return Packed(t, self._span(t, needed))
            reason = "small"
        self._kept[reason] += 1
        return Kept(t)

    @torch._disable_dynamo
    def _unpack(self, saved: Packed | Kept) -> torch.Tensor:
        # Backward has begun: what was saved in forward is not saved again.
        self._spans.clear()
        return saved.unpack()

    def _span(self, t: torch.Tensor, needed: tuple[int, int]) -> PackedSpan:
        """The packed span that holds the bytes ``needed`` for ``t``: a known one, or a new one."""
        known = self._spans.get(t)
        if known is None:
            known = self._spans.put(t, [])
        known[:] = [reference for reference in known if reference() is not None]
        for reference in known:
            span = reference()
            if span is not None and span.covers(t, needed):
                span.record.saves += 1
                return span
        span = self._new_span(t, span_to_pack(t, needed))
        known.append(weakref.ref(span))
        return span

    def _codec_of(self, t: torch.Tensor) -> Codec:
        dtype = torch_dtype_code(t.dtype)
        codec = codec_of(self._codec, dtype)
        return codec if takes(codec, dtype) else Codec.ZVC

    def _new_span(self, t: torch.Tensor, span: tuple[int, int]) -> PackedSpan:
        codec = self._codec_of(t)
        record = Record(
            index=len(self._records),
            module=self._names.current,
            operator=operator_name(t.grad_fn and t.grad_fn.name()),
            shape=tuple(t.shape),
            dtype=str(t.dtype).removeprefix("torch."),
            codec=codec.name.lower(),
            backend=self._backend.name,
            raw_bytes=span[1] - span[0],
        )
        packed = PackedSpan(t, span, self._backend, codec, self._frame_bytes, record, self._verify)
        self._records.append(record)
        return packed

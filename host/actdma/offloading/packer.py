"""Packs what is saved, each storage once, and decodes ahead of the backward pass."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable

import torch

from ..api import codec_of
from ..arrays import torch_dtype_code
from ..codecs import best_codec, takes
from ..frame import Codec, DType
from .coder import Coder
from .modules import ModuleNames
from .packed import Memory, PackedSpan
from .queue import Queue, Result, queue_of
from .records import Record
from .storages import StorageTable, View, span_to_pack
from .transfer import Source
from .versions import Version, operator_name

# Bytes from which on looking costs little beside packing.
_WORTH_A_SAMPLE = 1 << 18

Spans = StorageTable[list["weakref.ref[PackedSpan]"]]


class Packed:
    """A saved tensor: a view of a packed span, and the version it had."""

    __slots__ = ("__weakref__", "_version", "_view", "asked", "saving")

    saving: Saving

    def __init__(self, t: torch.Tensor) -> None:
        self._view, self._version = View.of(t), Version(t)
        self.asked = False

    def unpack(self) -> torch.Tensor:
        """The tensor; RuntimeError if the original was modified in place after it was saved."""
        self._version.check()
        self.asked = True
        return self.span.view(self._view)

    @property
    def span(self) -> PackedSpan:
        """What it is a view of; waits until that is packed."""
        return self.saving.end().result()


class Saving:
    """A storage of which tensors are being saved. It is packed when another one is saved, or when
    backward begins: the same tensor is often saved twice in a row, as one operator's result and
    the next one's input."""

    def __init__(
        self, source: Source, whole: tuple[int, int], pack: Callable[[Saving], Result[PackedSpan]]
    ) -> None:
        self.source = source
        self.whole = whole
        self.claimants: list[weakref.ref[Packed]] = []
        self._pack = pack
        self._lock = threading.Lock()
        self._result: Result[PackedSpan] | None = None

    def join(self, packed: Packed, source: Source, needed: tuple[int, int]) -> bool:
        """Have ``packed`` be one more of those that share the storage; False if that is too late,
        or another storage, or an earlier state of it."""
        with self._lock:
            if (
                self._result is not None
                or source.storage._cdata != self.source.storage._cdata
                or source.version != self.source.version
                or needed[0] < self.whole[0]
                or needed[1] > self.whole[1]
            ):
                return False
            self.add(packed)
            return True

    def add(self, packed: Packed) -> None:
        """``packed`` will ask for what is saved."""
        self.claimants.append(weakref.ref(packed))
        packed.saving = self

    def end(self) -> Result[PackedSpan]:
        """Have it packed, once."""
        with self._lock:
            if self._result is None:
                self._result = self._pack(self)
                del self.source, self._pack
            return self._result


class Packer:
    """Packs saved tensors through ``coder``, at once or by a thread.

    A storage that several tensors share is packed once. `records` has one per packed span, in the
    order of saving. ``queue_bytes``: how many bytes may wait for the thread, which then decodes as
    many ahead in backward; 0: no thread. ``min_ratio``: what would shrink by less is better kept.
    """

    def __init__(
        self,
        codec: str,
        coder: Coder,
        memory: Memory,
        queue_bytes: int,
        verify: bool,
        min_ratio: float,
    ) -> None:
        self.records: list[Record] = []
        self._codec = codec
        self._coder = coder
        self._memory = memory
        self._verify = verify
        self._queue = queue_of(queue_bytes)
        self._min_ratio = min_ratio if coder.on_cpu else 0
        self._spans: Spans = StorageTable()
        self._dense: StorageTable[Record] = StorageTable()
        self._order: list[weakref.ref[PackedSpan]] = []
        self._ahead = 0  # position in the order from which on all is decoded or being so
        self._last: Saving | None = None
        self._lock = threading.Lock()

    def pack(self, t: torch.Tensor, needed: tuple[int, int], names: ModuleNames) -> Packed | None:
        """Have the bytes ``needed`` for ``t`` packed; None if it is better kept as it is. Records
        tell who in ``names`` saves it."""
        packed, source, last = Packed(t), Source(t), self._last
        if last is not None and last.join(packed, source, needed):
            return packed
        self._end()
        whole = span_to_pack(t, needed)
        node = t.grad_fn and t.grad_fn.name()
        shape, module = tuple(t.shape), names.current

        def record() -> Record:
            return Record(
                index=len(self.records),
                module=module,
                operator=operator_name(node),
                shape=shape,
                dtype=str(source.dtype).removeprefix("torch."),
                raw_bytes=whole[1] - whole[0],
            )

        if self._better_kept(source, whole, record):
            return None
        saving = Saving(source, whole, functools.partial(self._put, needed, record))
        saving.add(packed)
        self._end(saving)
        return packed

    def unpack(self, packed: Packed) -> torch.Tensor:
        """See `Packed.unpack`."""
        self.forget()  # backward has begun: what was saved in forward is not saved again
        t = packed.unpack()
        if isinstance(self._queue, Queue):
            self._prefetch(self._queue, packed.span.position)
        return t

    def finish(self) -> None:
        """Wait until all is packed."""
        self._end()
        self._queue.put(0, lambda: None).result()

    def forget(self) -> None:
        """What is saved from now on is packed again, even if it was before."""
        self._end()
        self._dense = StorageTable()
        self._spans = StorageTable()  # what waits for the thread goes on with the one it had

    def _end(self, following: Saving | None = None) -> None:
        """Nothing more joins the storage that was saved last, but the ``following`` one."""
        with self._lock:
            last, self._last = self._last, following
        if last is not None:
            last.end()

    def _put(
        self, needed: tuple[int, int], make_record: Callable[[], Record], saving: Saving
    ) -> Result[PackedSpan | None]:
        """Have what is saved packed."""
        spans, source, whole, claimants = (
            self._spans,
            saving.source,
            saving.whole,
            tuple(saving.claimants),
        )

        def work() -> PackedSpan | None:
            alive = [packed for packed in (claimant() for claimant in claimants) if packed]
            if not alive:
                return None  # nobody will ask: the graph is gone
            span = _known(spans, source, needed)
            if span is None:
                span = self._new(spans, source, whole, make_record())
            span.record.saves += len(claimants)
            for packed in alive:
                span.claim(packed)
            return span

        return self._queue.put(whole[1] - whole[0], work)

    def _better_kept(
        self, source: Source, whole: tuple[int, int], make_record: Callable[[], Record]
    ) -> bool:
        """Whether ``source`` is the host's own memory, would cost CPU time, and would hardly
        shrink, by a sample of its blocks. It is recorded as what it is then."""
        storage = source.storage
        if not self._min_ratio or source.device.type != "cpu" or storage in self._spans:
            return False
        record = self._dense.get(storage)
        if record is not None:
            record.saves += 1
            return True
        nbytes = whole[1] - whole[0]
        if nbytes < _WORTH_A_SAMPLE or nbytes < storage.nbytes():
            return False
        dtype = torch_dtype_code(source.dtype)
        sample = self._coder.sample(source.bytes(*whole), dtype, self._codec_of(dtype))
        if sample.ratio >= self._min_ratio:
            return False
        record = make_record()
        record.saves = 1
        record.codec, record.backend, record.stored_bytes = "raw", "kept", nbytes
        record.zero_fraction = (sample.zeros or 0) * dtype.element_bytes / sample.raw_nbytes
        self.records.append(self._dense.put(storage, record))
        return True

    def _new(
        self, spans: Spans, source: Source, whole: tuple[int, int], record: Record
    ) -> PackedSpan:
        codec = self._codec_of(torch_dtype_code(source.dtype))
        record.codec = codec.name.lower()
        span = PackedSpan(source, whole, codec, self._coder, self._memory, record, self._verify)
        self.records.append(record)
        known = spans.get(source.storage) or []
        alive = [reference for reference in known if reference() is not None]
        spans.put(source.storage, [*alive, weakref.ref(span)])
        while self._order and self._order[-1]() is None:
            self._order.pop()
        span.position = len(self._order)
        self._order.append(weakref.ref(span))
        self._ahead = len(self._order)
        return span

    def _codec_of(self, dtype: DType) -> Codec:
        codec = codec_of(self._codec, dtype)
        return codec if takes(codec, dtype) else best_codec(dtype)

    def _prefetch(self, queue: Queue, position: int) -> None:
        """Have the spans decoded that were packed before the one at ``position``: backward asks for
        them next, in this order."""
        room = queue.ahead_bytes
        for before in reversed(range(min(position, len(self._order)))):
            span = self._order[before]()
            if span is None:
                continue
            room -= span.nbytes
            if room < 0:
                break
            if before < self._ahead:
                self._ahead = before
                queue.offer(span.prefetch)


def _known(spans: Spans, source: Source, needed: tuple[int, int]) -> PackedSpan | None:
    """The packed span from which the bytes ``needed`` can be had."""
    for reference in spans.get(source.storage) or ():
        span = reference()
        if span is not None and span.covers(source, needed):
            return span
    return None

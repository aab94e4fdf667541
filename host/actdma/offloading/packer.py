"""Packs what is saved, each storage once, and decodes ahead of the backward pass."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import TypeVar

import torch

from ..api import suited_codec
from ..arrays import torch_dtype_code
from ..codecs.bsr import Parts
from .coded import CodedSpan, LossySpan
from .coder import Coder
from .modules import ModuleNames
from .needs import VALUES, Approximate, Need
from .packed import Memory, PackedSpan, Span
from .queue import Queue, Result, queue_of
from .records import Record
from .remade import Made, Remade
from .saving import Packed, Saving
from .storages import StorageTable, View, is_dense, span_to_pack
from .transfer import Source
from .versions import Version, operator_name

MakeRecord = Callable[[torch.UntypedStorage, str, str, int], Record]
AnySpan = TypeVar("AnySpan", bound=Span)

# Bytes from which on looking costs little beside packing.
_WORTH_A_SAMPLE = 1 << 18

Spans = StorageTable[list["weakref.ref[PackedSpan]"]]


class BlockSparse:
    """A matrix whose kept blocks are held; see `block_sparse.Kept`."""

    def __init__(self, span: Result[LossySpan]) -> None:
        self._span = span

    def parts(self) -> Parts:
        """The kept blocks."""
        return self._span.result().parts()


class Packer:
    """Packs saved tensors through ``coder``, at once or by a thread.

    A storage that several tensors share is packed once. `records` has one per packed span, in the
    order of saving, `no_gain` why lossy rules were of no use, by module and rule.
    ``queue_bytes``: how many bytes may wait for the thread, which then decodes as many ahead in
    backward; 0: no thread. ``min_ratio``: what would shrink by less is better kept.
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
        self.no_gain: dict[tuple[str | None, str], str] = {}
        self._codec = codec
        self._coder = coder
        self._memory = memory
        self._verify = verify
        self._queue = queue_of(queue_bytes)
        self._min_ratio = min_ratio if coder.on_cpu else 0
        self._spans: Spans = StorageTable()
        self._dense: StorageTable[Record] = StorageTable()
        self._recorded: StorageTable[bool] = StorageTable()
        self._order: list[weakref.ref[Span]] = []
        self._ahead = 0  # position in the order from which on all is decoded or being so
        self._last: Saving | None = None
        self._lock = threading.Lock()

    def pack(
        self, t: torch.Tensor, needed: tuple[int, int], names: ModuleNames, need: Need = VALUES
    ) -> Packed | None:
        """Have the bytes ``needed`` for ``t`` packed, or what its operator ``need``s of them; None
        if it is better kept as it is. Records tell who in ``names`` saves it."""
        source, last = Source(t), self._last
        joins = last is not None and last.takes(source, needed)
        whole = last.whole if joins else span_to_pack(t, needed)
        if need is not VALUES and not (is_dense(t) and whole == needed):
            need = VALUES
        known = joins and (need is not VALUES or VALUES in last.needs())
        if not known:
            make_record = self._recorder(t, names)
            if not joins:
                self._end()
            if need is VALUES and self._better_kept(source, whole, make_record):
                return None
        packed = Packed(View.of(t), Version(t), need)
        if joins:
            last.needed = (min(last.needed[0], needed[0]), max(last.needed[1], needed[1]))
            last.add(packed)
            return packed
        saving = Saving(source, needed, whole, functools.partial(self._put, make_record))
        saving.add(packed)
        self._end(saving)
        return packed

    def remake(
        self, t: torch.Tensor, made: Made, names: ModuleNames, need: Need = VALUES
    ) -> Packed | None:
        """Have ``t``, which came about as ``made`` says, made again, whatever of it is ``need``ed;
        None if it cannot be."""
        span = made.span and made.span()
        if span is None:
            again = made.hold()
            if again is None:
                return None
            self._end()
            why = "its operator runs again in backward, on what is held anyway"
            record = self._recorder(t, names)(t.untyped_storage(), "made again", why, 0)
            record.operator = made.operator
            span = Remade(t, made, again, self._memory, record, self._verify)
            span.position = len(self._order)
            made.span = weakref.ref(span)
            self._note(t.untyped_storage(), record)
        packed = Packed(View.of(t), Version(t))
        packed.lies_in(span)
        span.record.saves += 1
        if isinstance(need, Approximate):
            self.gains_nothing(need, "its input is made again")
        return packed

    def gains_nothing(self, need: Approximate, why: str) -> None:
        """Have a lossy rule reported as one that is of no use."""
        self.no_gain.setdefault((need.module, need.name), why)

    def keep(self, t: torch.Tensor, need: Approximate, names: ModuleNames) -> BlockSparse:
        """Have the matrix ``t`` coded as a block-sparse one."""
        source, make_record = Source(t), self._recorder(t, names)
        return BlockSparse(self._queue.put(t.nbytes, lambda: self._form(source, need, make_record)))

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
        self._dense.clear()
        self._recorded.clear()
        self._spans = StorageTable()  # what waits for the thread goes on with the one it had

    def _end(self, following: Saving | None = None) -> None:
        """Nothing more joins the storage that was saved last, but the ``following`` one."""
        with self._lock:
            last, self._last = self._last, following
        if last is not None:
            last.end()

    def _put(self, make_record: MakeRecord, saving: Saving) -> Result[None]:
        """Have what is saved packed, in as many forms as are needed."""
        spans = self._spans

        def work() -> None:
            needs = saving.needs()
            if not needs:
                return  # nobody will ask: the graph is gone
            source = saving.source
            whole = _known(spans, source, saving.needed)
            if whole is None and VALUES not in needs:
                forms = {need: self._form(source, need, make_record) for need in needs}
                if None not in forms.values():
                    saving.packed_in(forms)
                    return
            if whole is None:
                whole = self._new(spans, source, saving.whole, make_record)
            for need in needs:
                if isinstance(need, Approximate):
                    self.gains_nothing(need, "its input is held with all its bits for others")
            saving.packed_in(dict.fromkeys((*needs, VALUES), whole))

        return self._queue.put(saving.whole[1] - saving.whole[0], work)

    def _form(self, source: Source, need: Need, make_record: MakeRecord) -> Span | None:
        """A span of less than the values; None if ``need`` cannot be served so."""
        t = source.tensor
        record = make_record(source.storage, need.name, need.why, t.nbytes)
        kind = LossySpan if isinstance(need, Approximate) else CodedSpan
        try:
            span = kind(t, need, self._coder, self._memory, record)
        except (TypeError, ValueError) as error:
            # The codec does not take its dtype, its shape or its values.
            if isinstance(need, Approximate):
                self.gains_nothing(need, str(error))
            return None
        self._note(source.storage, record)
        return self._ordered(span)

    def _note(self, storage: torch.UntypedStorage, record: Record) -> None:
        self._recorded.put(storage, True)
        self.records.append(record)

    def _recorder(self, t: torch.Tensor, names: ModuleNames) -> MakeRecord:
        """What makes the record of ``t``, given its storage, the form it is held in, why that is
        enough, and raw bytes."""
        node = t.grad_fn and t.grad_fn.name()
        shape, dtype, module = tuple(t.shape), str(t.dtype), names.current

        def make(storage: torch.UntypedStorage, form: str, why: str, raw_bytes: int) -> Record:
            return Record(
                index=len(self.records),
                module=module,
                operator=operator_name(node),
                shape=shape,
                dtype=dtype.removeprefix("torch."),
                raw_bytes=raw_bytes,
                plain_bytes=0 if storage in self._recorded else storage.nbytes(),
                form=form,
                why=why,
            )

        return make

    def _better_kept(self, source: Source, whole: tuple[int, int], make_record: MakeRecord) -> bool:
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
        sample = self._coder.sample(source.bytes(*whole), dtype, suited_codec(self._codec, dtype))
        if sample.ratio >= self._min_ratio:
            return False
        why = "kept as it is: it would hardly shrink"
        record = make_record(storage, VALUES.name, why, nbytes)
        record.saves = 1
        record.codec, record.backend, record.stored_bytes = "raw", "kept", nbytes
        record.zero_fraction = (sample.zeros or 0) * dtype.element_bytes / sample.raw_nbytes
        self._note(storage, self._dense.put(storage, record))
        return True

    def _new(
        self, spans: Spans, source: Source, whole: tuple[int, int], make_record: MakeRecord
    ) -> PackedSpan:
        codec = suited_codec(self._codec, torch_dtype_code(source.dtype))
        nbytes = whole[1] - whole[0]
        record = make_record(source.storage, VALUES.name, VALUES.why, nbytes)
        record.codec = codec.name.lower()
        span = PackedSpan(source, whole, codec, self._coder, self._memory, record, self._verify)
        self._note(source.storage, record)
        known = spans.get(source.storage) or []
        alive = [reference for reference in known if reference() is not None]
        spans.put(source.storage, [*alive, weakref.ref(span)])
        return self._ordered(span)

    def _ordered(self, span: AnySpan) -> AnySpan:
        """``span`` is the next in the order in which backward asks, seen from its end."""
        while self._order and self._order[-1]() is None:
            self._order.pop()
        span.position = len(self._order)
        self._order.append(weakref.ref(span))
        self._ahead = len(self._order)
        return span

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

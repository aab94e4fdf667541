"""`offload`: saved tensors are compressed while autograd keeps them."""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch import nn
from torch._C._dynamo import eval_frame
from torch.autograd.graph import saved_tensors_hooks

from ..api import backend_of, codec_of
from ..backend import Backend, descriptors
from ..board.device import Device
from ..codecs import Lossy
from ..frame import BLOCK_BYTES, FRAME_BYTES, Codec, DType
from .arena import Arena
from .coder import Coder
from .handlers import Watch
from .held import Held, Share
from .modules import ModuleNames, in_rrelu
from .needs import Shape
from .operators import Operators
from .packed import Memory
from .packer import Packer
from .passing import Copied, Kept, Parameters, unsuitable
from .plan import Plan
from .records import NoGain, Report, environment
from .rules import Rules
from .saving import Packed
from .storages import StorageTable, touched

QUEUE_BYTES = 256 << 20
Saved = Packed | Kept | Copied
Hook = TypeVar("Hook", bound=Callable[..., Any])
_SHARED_FRAME_BYTES = 1 << 20

# Shared by all sessions of the process: a training loop opens one in every step.
_arenas = {"packed": Arena(), "decoded": Arena()}


def empty_cache() -> None:
    """Return memory that sessions hold for reuse, and that nothing lies in, to the system."""
    for arena in _arenas.values():
        arena.trim()


def _leave_arenas_to_the_parent() -> None:
    """A thread of the parent may have held a lock that a forked child inherits."""
    _arenas.update(packed=Arena(), decoded=Arena())


os.register_at_fork(after_in_child=_leave_arenas_to_the_parent)


# None where `torch.compile` is not at work; an older PyTorch does not tell.
_compiler = getattr(eval_frame, "get_eval_frame_callback", lambda: "perhaps")


def _uncompiled(hook: Hook) -> Hook:
    """``hook``, not to be compiled. It runs for every tensor that is saved: `torch.compile` is kept
    out only where it is at work, as that costs more than many a tensor."""
    disabled = torch._disable_dynamo(hook)

    @functools.wraps(hook)
    def run(session: Session, saved: Any) -> Any:
        return (hook if _compiler() is None else disabled)(session, saved)

    return run


@functools.cache
def _pass_over_hooks() -> None:
    """Have `torch.compile` not look into what `_uncompiled` makes, either."""
    for hook in (Session._pack, Session._unpack):
        torch._dynamo.decorators.skip(hook)


@torch._disable_dynamo
def offload(
    model: nn.Module | None = None,
    *,
    codec: str = "zvc",
    backend: str | Backend = "board",
    min_bytes: int = BLOCK_BYTES,
    frame_bytes: int | None = None,
    verify: bool = False,
    queue_bytes: int | None = None,
    break_even_bytes: int | None = None,
    min_ratio: float = 1.05,
    exact: bool = False,
    lossy: Mapping[str | type[nn.Module], Lossy | None] | None = None,
) -> Session:
    """Compress what autograd saves in the ``with`` block until the backward pass asks for it.

    ::

        with actdma.offload(model) as session:
            loss = criterion(model(x), y)
        loss.backward()
        print(session.plan())  # what is held of each tensor, and why
        print(session.report())

    As a decorator of a function that runs the model, it records the latest call.

    Gradients are those of the plain run, bit for bit. The backward pass may run inside or outside
    of the block, more than once, and with ``create_graph``.

    ``model``: its parameters and buffers are never packed, and records name its modules. Without
    it, leaves that require grad count as parameters. ``codec``: that of `actdma.compress`; a tensor
    of a dtype that it does not take goes through the one that suits it best (`Record.codec` tells).
    ``backend``: "board" (the board of `actdma.open_board`), "native" (the CPU), "reference"
    (NumPy), or an `actdma.backend.Backend`. ``min_bytes``: tensors of smaller storages stay as they
    are. ``frame_bytes``: raw bytes per frame, a multiple of 8192; None is 4 MiB, and 1 MiB for
    "native", whose threads (as many as PyTorch's) share frames out. ``verify``: compare a hash of
    every tensor when it comes back (`Record.bit_identical`); the backward pass ends in
    `actdma.FrameError` if it differs. ``queue_bytes``: raw bytes that may wait for a thread which
    packs while forward goes on, and are decoded ahead in backward; forward waits when they are
    exceeded. 0 packs in forward's own thread; None is 256 MiB for a board and for models that are
    not on the CPU, 0 else.
    ``break_even_bytes``: smaller tensors are left to the CPU's codec; None: as the board measured.
    ``min_ratio``: where the CPU compresses its own memory, large tensors that would shrink by less
    stay as they are, as a sample of their blocks tells (`Record.backend` is "kept"); 0 packs all.
    ``exact``: hold less than the values where the operator's backward function needs less (a bit
    per element for ReLU and dropout, the place in its window for max-pooling), and nothing where
    the tensor can be made again, bit for bit, from what is held anyway (normalisations, elementwise
    operators, a residual addition, autocast's copies of parameters); `Session.plan` tells.
    ``lossy``: codecs for the inputs that layers save for their weights' gradients, by module name
    pattern or type: `actdma.Pool` for convolutions (arXiv 2409.11902), `actdma.Bsr` for linear
    layers (arXiv 2311.16883). Results, and gradients of inputs, stay exact; ReLU and its kin hold
    bits as with ``exact``. What can be made again, or is held with all its bits for others, is not
    lossy: there would be no gain.

    A board's fault costs no step: what it fails at goes through the CPU's codec, with one
    RuntimeWarning and a count in the report. Memory for what is packed, and decoded, is kept for
    the next step: `actdma.offloading.empty_cache` returns it to the system.

    A storage is packed once for all tensors that share it, in the span of bytes that they touch.
    In-place changes after saving raise autograd's own RuntimeError in the backward pass; changes
    through ``.data``, which autograd does not see either, go unseen. Where forward runs under
    activation checkpointing (`torch.utils.checkpoint`), only the inputs of a checkpointed part are
    saved, so only those are packed: what is inside is computed again. Tensor subclasses (DTensor),
    sparse, nested, quantised, meta and fake tensors stay as they are; `Report.kept` counts them.
    With ``exact``, autocast's copies of parameters are cast again in the backward pass: parameters
    have to stay as they are until then (in-place changes raise; those through ``.data`` go unseen).
    `torch.compile` leaves a function with this block in it uncompiled (and raises if told
    ``fullgraph``); a compiled model may be called in the block.

    Other than without the block: `torch.func.grad` and its kin inside it raise, as PyTorch has no
    hooks there. A backward function that writes to what it saved does not spoil it for others, and
    neither it nor a ``detach_`` after saving raises. What `nn.RReLU` and `functional.rrelu` save
    stays as it is, since PyTorch fills it after saving it; calling `torch.rrelu` or `rrelu_`
    itself, or from TorchScript, gives wrong gradients here, as it does with every hook that copies.

    ValueError for an unknown codec or backend and for sizes that are not allowed, TypeError for
    rules that are none.
    """
    least = {"min_bytes": min_bytes, "min_ratio": min_ratio, "queue_bytes": queue_bytes or 0}
    for name, value in {**least, "break_even_bytes": break_even_bytes or 0}.items():
        if value < 0:
            raise ValueError(f"{name} is {value}, it must not be negative")
    if not isinstance(model, nn.Module | None):
        raise TypeError(f"expected a torch.nn.Module or None, got {type(model).__name__}")
    if frame_bytes is None:
        frame_bytes = _SHARED_FRAME_BYTES if backend == "native" else FRAME_BYTES
    backend = _native() if backend == "native" else backend_of(backend)
    if queue_bytes is None:
        queue_bytes = QUEUE_BYTES if _overlaps(model, backend) else 0
    codec_of(codec, DType.uint8)  # ValueError for an unknown name
    next(descriptors(0, DType.uint8, Codec.RAW, frame_bytes))  # ValueError for a bad size
    coder = Coder(backend, frame_bytes, break_even_bytes)
    memory = Memory(**_arenas, held=Held())
    packer = Packer(codec, coder, memory, queue_bytes, verify, min_ratio)
    names = ModuleNames(model)
    rules, keep = Rules(lossy or {}, names), functools.partial(packer.keep, names=names)
    watched = exact or lossy
    operators = Operators(exact, rules.need, keep, packer.gains_nothing) if watched else None
    return Session(model, coder, memory.held, packer, min_bytes, names, rules, operators)


def _native() -> Backend:
    from ..native import NativeBackend

    return NativeBackend(torch.get_num_threads())


def _overlaps(model: nn.Module | None, backend: Backend) -> bool:
    """Whether packing would leave the processor that runs the model idle."""
    elsewhere = model is not None and any(p.device.type != "cpu" for p in model.parameters())
    return elsewhere or isinstance(backend, Device)


class Session(contextlib.ContextDecorator):
    """One use of `offload`; a context manager, and a decorator of functions that run the model.
    Entered again, it goes on recording; as a decorator it records the latest call alone."""

    def __init__(
        self,
        model: nn.Module | None,
        coder: Coder,
        held: Held,
        packer: Packer,
        min_bytes: int,
        names: ModuleNames,
        rules: Rules,
        operators: Operators | None,
    ) -> None:
        self._coder = coder
        self._held = held
        self._packer = packer
        self._min_bytes = min_bytes
        self._parameters = Parameters(model)
        self._names = names
        self._rules = rules
        self._operators = operators
        self._watch = Watch(operators) if operators else contextlib.nullcontext()
        self._kept: collections.Counter[str] = collections.Counter()
        self._shares: StorageTable[weakref.ref[Share]] = StorageTable()
        self._seconds = {"pack_s": 0.0, "unpack_s": 0.0}
        self._hooks: saved_tensors_hooks | None = None
        self._first_record: int | None = None  # of those since it was last entered

    def _recreate_cm(self) -> Session:
        """What `contextlib.ContextDecorator` enters for a call."""
        self._packer.finish()
        self._packer.records.clear()
        self._kept.clear()
        self._seconds = dict.fromkeys(self._seconds, 0.0)
        return self

    @torch._disable_dynamo
    def __enter__(self) -> Session:
        if self._hooks is not None:
            raise RuntimeError("this offload session is already open")
        _pass_over_hooks()
        self._first_record = len(self._packer.records)
        hooks = saved_tensors_hooks(self._pack, self._unpack)
        hooks.__enter__()
        self._hooks = hooks  # a cycle with this session until __exit__
        self._parameters.open()
        self._names.open()
        self._watch.__enter__()
        return self

    @torch._disable_dynamo
    def __exit__(self, *exception: object) -> None:
        self._watch.__exit__(*exception)
        hooks, self._hooks = self._hooks, None
        hooks.__exit__(*exception)
        self._names.close()
        self._parameters.close()
        self._packer.forget()
        if self._operators:
            self._operators.forget()
        self._shares.clear()

    @property
    def held_bytes(self) -> int:
        """Bytes held for backward now: what is packed, decoded, or kept as it is, each storage
        once, without parameters."""
        self._packer.finish()
        return self._held.now

    def plan(self) -> Plan:
        """What of each tensor that was saved since the block was last entered is held now, and why;
        to be printed. RuntimeError before the model has run in the block."""
        if self._first_record is None:
            raise RuntimeError("nothing was saved yet: run the model in the session's block first")
        return Plan(self.report(), self._first_record)

    def report(self) -> Report:
        """What was packed so far, and what came back."""
        self._packer.finish()
        return Report(
            list(self._packer.records),
            environment(self._coder.backend),
            dict(self._kept),
            faults=self._coder.faults,
            no_gain=[*self._no_gain()],
            held_bytes_peak=self._held.peak,
            **self._seconds,
        )

    def _no_gain(self) -> Iterator[NoGain]:
        for rule, why in self._packer.no_gain.items():
            yield NoGain(*rule, why)
        if self._first_record is not None:
            for rule in self._rules.unused():
                yield NoGain(*rule)

    @_uncompiled
    def _pack(self, t: torch.Tensor) -> Saved:
        began = time.perf_counter()
        saved = self._saved(t)
        self._seconds["pack_s"] += time.perf_counter() - began
        return saved

    @_uncompiled
    def _unpack(self, saved: Saved) -> torch.Tensor:
        began = time.perf_counter()
        try:
            return self._packer.unpack(saved) if isinstance(saved, Packed) else saved.unpack()
        finally:
            self._seconds["unpack_s"] += time.perf_counter() - began

    def _saved(self, t: torch.Tensor) -> Saved:
        reason = unsuitable(t)
        if reason is None and t in self._parameters:
            self._kept["parameter"] += 1
            return Kept(t)
        plain = reason is None
        if plain:
            needed = touched(t)
            if max(needed[1] - needed[0], t.untyped_storage().nbytes()) < self._min_bytes:
                reason = "small"
            elif in_rrelu():
                reason = "rrelu"
            else:
                return self._large(t, needed)
        self._kept[reason] += 1
        return Kept(t, self._share(t) if plain else None)

    def _large(self, t: torch.Tensor, needed: tuple[int, int]) -> Saved:
        operators = self._operators
        if operators is None:
            return self._packer.pack(t, needed, self._names) or self._dense(t)
        copied = Copied.of(t) if operators.exact else None
        if copied is not None:
            self._kept["cast again"] += 1
            return copied
        need = operators.need_of(t)
        made = operators.made(t) if need != Shape() else None
        saved = (
            (made and self._packer.remake(t, made, self._names, need))
            or self._packer.pack(t, needed, self._names, need)
            or self._dense(t)
        )
        operators.noted(t, saved)
        return saved

    def _dense(self, t: torch.Tensor) -> Kept:
        self._kept["dense"] += 1
        return Kept(t, self._share(t))

    def _share(self, t: torch.Tensor) -> Share:
        """The share that a kept tensor has of what is held: one for each storage."""
        storage = t.untyped_storage()
        known = self._shares.get(storage)
        share = known and known()
        if share is None:
            share = self._held.add(storage.nbytes())
            self._shares.put(storage, weakref.ref(share))
        return share

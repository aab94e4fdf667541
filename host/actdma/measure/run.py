"""One training step, plain and through a backend, and the comparison of the two."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from ..api import backend_of, codec_of
from ..backend import Backend, descriptors
from ..bench.dump import Dump, DumpError
from ..frame import FRAME_BYTES, Codec, DType, FrameError
from ..offloading import Report, Session, offload
from .inputs import DEFAULT_MODEL, InputError, load_images, load_model, need, one_sentence
from .probe import CpuProbe, Watched

DTYPES = ("float32", "bfloat16")


@dataclasses.dataclass(frozen=True)
class Options:
    """What to measure; the fields are those of ``actdma measure``."""

    model: str = DEFAULT_MODEL
    data: str | None = None
    batch: int = 8
    dtype: str = "float32"
    codec: str = "auto"
    backend: str = "board"
    board: str | None = None
    timing: bool = True
    seed: int = 0
    frame_bytes: int = FRAME_BYTES
    dump: str | None = None


@dataclasses.dataclass
class Step:
    """A training step, the same every time: forward in train mode, cross-entropy, backward."""

    model: nn.Module
    images: torch.Tensor
    seed: int

    def __post_init__(self) -> None:
        if not any(p.requires_grad for p in self.model.parameters()):
            raise InputError("the model has no parameter that requires grad")
        self._state = {name: t.clone() for name, t in self.model.state_dict().items()}
        with one_sentence("the model's forward pass failed"), torch.no_grad():
            # The classes that the network sees are what it is trained towards here.
            self._labels = _logits(self.model.eval()(self.images)).argmax(1)
        self.model.train()

    def gradients(self, session: Session | None = None) -> dict[str, torch.Tensor | None]:
        """Gradients of all parameters by name; forward runs in ``session``, if there is one."""
        self.model.load_state_dict(self._state)  # batch statistics have moved
        self.model.zero_grad(set_to_none=True)
        torch.manual_seed(self.seed)
        with session or contextlib.nullcontext():
            logits = _logits(self.model(self.images))
            loss = nn.functional.cross_entropy(logits, self._labels)
        loss.backward()
        return {name: p.grad for name, p in self.model.named_parameters()}


def measure(options: Options) -> Report:
    """Run the step plainly, with the CPU's codec where it is built, and with the backend asked for.

    The report is that of the last. Its totals have besides the step's wall-clock seconds ("step_s",
    "plain_step_s") and the CPU's rates ("cpu_compress_gb_per_s", "cpu_decompress_gb_per_s",
    "memcpy_gb_per_s"), and "fault", why a frame was refused, else None. `InputError`, ValueError or
    ImportError, of one sentence, if the options cannot be had.
    """
    codec_of(options.codec, DType.uint8)  # ValueError for an unknown name
    next(descriptors(0, DType.uint8, Codec.RAW, options.frame_bytes))  # ValueError for a bad size
    if options.dtype not in DTYPES:
        raise ValueError(f"unknown dtype {options.dtype!r}; known are {', '.join(DTYPES)}")
    dump = _dump(options.dump)
    with _open_backend(options) as backend:
        network = load_model(options.model, options.seed)
        images = load_images(options.data, options.batch, network.normalisation, network.side)
        dtype = getattr(torch, options.dtype)
        step = Step(network.model.to(dtype), images.to(dtype), options.seed)
        if dump is not None:
            step.gradients(_session(step, dump, options, verify=False))
        return compare(step, backend, options)


def compare(step: Step, backend: Backend, options: Options) -> Report:
    """`measure` of a step that is there already."""
    step.gradients()  # the first run of a process warms caches up, and would be timed
    plain, plain_s = _timed(step)
    plain_s = min(plain_s, _timed(step)[1])  # the one less disturbed by others
    probe = _cpu_probe()
    cpu_rates, total = {}, None
    if probe:
        with _progress("CPU codec", None) as moved:
            _timed(step, _session(step, Watched(probe, moved), options, verify=False))
        cpu_rates, total = probe.rates(), 2 * probe.raw_bytes
    with _progress(f"{backend.name} backend", total) as moved:
        session = _session(step, Watched(backend, moved), options, verify=True)
        try:
            offloaded, step_s = _timed(step, session)
            same, fault = all(identical(plain[n], offloaded[n]) for n in plain), None
        except FrameError as error:
            same, fault, step_s = False, str(error), None
    report = session.report()
    report.gradients_identical = same
    report.environment["options"] = dataclasses.asdict(options)
    report.extra_totals = {"fault": fault, "step_s": step_s, "plain_step_s": plain_s, **cpu_rates}
    return report


def identical(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    """Whether two tensors have the same dtype, shape and bits."""
    if a is None or b is None:
        return a is b
    same = a.dtype == b.dtype and a.shape == b.shape
    return same and torch.equal(_bytes(a), _bytes(b))


def _bytes(t: torch.Tensor) -> torch.Tensor:
    # Cloned, since a single item may count as contiguous whatever its stride.
    return t.clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)


def _logits(output: Any) -> torch.Tensor:
    if not isinstance(output, torch.Tensor) or output.ndim != 2:
        kind = tuple(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
        raise InputError(f"the model must return a tensor (batch, classes), it returned {kind}")
    return output


def _session(step: Step, backend: Backend, options: Options, *, verify: bool) -> Session:
    return offload(
        step.model,
        codec=options.codec,
        backend=backend,
        frame_bytes=options.frame_bytes,
        verify=verify,
        break_even_bytes=0,
        min_ratio=0,
    )


def _timed(step: Step, session: Session | None = None) -> tuple[dict[str, Any], float]:
    began = time.perf_counter()
    gradients = step.gradients(session)
    return gradients, time.perf_counter() - began


def _dump(folder: str | None) -> Dump | None:
    if folder is None:
        return None
    try:
        return Dump(folder, backend_of("native"))
    except DumpError as error:
        raise InputError(str(error)) from error


@contextlib.contextmanager
def _open_backend(options: Options) -> Iterator[Backend]:
    if options.backend != "board":
        if options.board is not None:
            raise ValueError(
                f"board {options.board!r} goes with backend 'board', not {options.backend!r}"
            )
        yield backend_of(options.backend)
        return
    from ..board import BoardError, open_board

    try:
        board = open_board(options.board, timed=options.timing)
    except BoardError as error:
        raise InputError(str(error)) from error
    with board:
        yield board


def _cpu_probe() -> CpuProbe | None:
    """None where the C++ codec is not built, as on an image without a compiler."""
    try:
        return CpuProbe(backend_of("native"))
    except ImportError:
        return None


@contextlib.contextmanager
def _progress(what: str, total: int | None) -> Iterator[Any]:
    """A bar of bytes on stderr, where that is a terminal."""
    bar = need("tqdm").tqdm(
        desc=what,
        total=total,
        unit="B",
        unit_scale=True,
        leave=False,
        file=sys.stderr,
        disable=None,
    )
    with bar:
        yield bar.update

"""What users of AXI DMA on PYNQ run into, each fault produced on the emulated board.

The numbers are those of the project's list of faults; the docstring of each test says what the
fault is and what has to happen.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pynq
import pytest

import actdma
from actdma.board import BoardError, BoardTimeoutError, open_on, process_lock
from actdma.board.break_even import crossing, measured_break_even
from actdma.board.link import Link
from actdma.board.opener import check_files
from actdma.board.pipeline import Passage
from actdma.board.staging import SLOTS
from actdma.emulation import Fault
from actdma.emulation.faults import (
    BOARD_FAULTS,
    CHANNELS,
    DMA_FAULTS,
    IDENTITY_FAULTS,
    STREAM_FAULTS,
)
from actdma.frame import Engine, Frame, FrameError, answer_bytes, crc, frame_bound
from actdma.native import NativeBackend
from actdma.overlay.design import load_design
from threads import run_threads
from user_kernels import Loopback

COMPRESS, DECOMPRESS = "axi_dma_compress", "axi_dma_decompress"
X = np.where(np.arange(40_000) % 3 == 0, np.linspace(-1, 1, 40_000), 0).astype(np.float32)


@contextlib.contextmanager
def board_on(timed=False, options=None, **install):
    """An emulation and a board on it; ``options`` are the board's."""
    with (
        actdma.emulation.install(timed=timed, activate=False, **install) as emulation,
        open_on(emulation, **{"frame_bytes": 65536, **(options or {})}) as board,
    ):
        yield emulation, board


@pytest.fixture
def parts():
    """The emulation and the board on it, with the real engines."""
    with board_on() as pair:
        yield pair


def check_works(board):
    """A board that works compresses as the reference does, and gives back what it got."""
    frame = actdma.compress(X, backend=board, frame_bytes=65536)
    assert bytes(frame) == bytes(actdma.compress(X, backend="reference", frame_bytes=65536))
    np.testing.assert_array_equal(actdma.decompress(frame, backend=board), X)


def round_trip(board, x):
    return actdma.decompress(actdma.compress(x, backend=board), backend=board)


def link_on(emulation, **options):
    """The driver's view of the first DMA, without a board around it."""
    overlay = pynq.Overlay(emulation.bitfile, device=emulation.device)
    link = Link(COMPRESS, getattr(overlay, COMPRESS), bytes_per_second=4e9, **options)
    link.reset()
    return link


def exchange(link, send, receive):
    """Send a packet and receive the answer; its length."""
    send.flush()
    receive.invalidate()
    link.start(send, receive)
    received = link.finish()
    receive[:received].invalidate()
    return received


def length_writes(emulation, monkeypatch):
    """The LENGTH registers written from now on, as "send" and "receive"."""
    log = []
    names = {0x28: "send", 0x58: "receive"}
    for dma in emulation.dmas.values():

        def write(offset, value, original=dma.write):
            if offset in names:
                log.append(names[offset])
            original(offset, value)

        monkeypatch.setattr(dma, "write", write)
    return log


@pytest.mark.parametrize("dma", [COMPRESS, DECOMPRESS])
def test_01_no_tlast(parts, dma):
    """The engine never sends TLAST: the error comes at once and names channel, status, bytes,
    cause."""
    emulation, board = parts
    frame = actdma.compress(X, backend=board)
    received = frame.nbytes if dma == COMPRESS else answer_bytes(X.nbytes)
    with (
        emulation.inject(Fault.NO_TLAST, dma, "s2mm", times=None),
        pytest.raises(BoardTimeoutError) as error,
    ):
        round_trip(board, X)
    for words in (dma, "receive channel (S2MM)", "no TLAST", "busy", f", {received} received"):
        assert words in str(error.value)
    check_works(board)


def test_01_timeout_without_insight():
    """On a real board nothing says that all is stuck: the wait ends after the timeout."""
    with board_on(options={"probe": None, "timeout": 0.05}) as (emulation, board):
        check_works(board)
        with (
            emulation.inject(Fault.NO_TLAST, COMPRESS, "s2mm", times=None),
            pytest.raises(BoardTimeoutError, match=r"does not end within 0\.05 s; .*TLAST"),
        ):
            actdma.compress(X, backend=board)
        check_works(board)


@pytest.mark.parametrize("dma", [COMPRESS, DECOMPRESS])
def test_02_zero_tkeep(parts, dma):
    """TKEEP is left zero, the bytes vanish: an error, never data that was not received. (That our
    engines set it, and TLAST once, is what the benches in hls/tb check in every packet.)"""
    emulation, board = parts
    with (
        emulation.inject(Fault.ZERO_KEEP, dma, "s2mm", times=None),
        pytest.raises(BoardError, match="answer of 0 bytes"),
    ):
        round_trip(board, X)
    check_works(board)


def test_03_receive_is_armed_first(parts, monkeypatch):
    """A send armed before its receive may be lost: the driver arms the receive first, always."""
    emulation, board = parts
    log = length_writes(emulation, monkeypatch)
    check_works(board)
    assert log == ["receive", "send"] * (len(log) // 2)
    assert len(log) == 2 * 2 * 3


def places(fault):
    """Where a fault can happen: (DMA, channel)."""
    if fault not in DMA_FAULTS:
        return [(None, None)]
    channels = CHANNELS if fault in STREAM_FAULTS else (None,)
    return [(dma, channel) for dma in (COMPRESS, DECOMPRESS) for channel in channels]


CASES = [
    pytest.param(fault, *place, id="-".join(filter(None, (fault.name.lower(), *place))))
    for fault in Fault
    if fault in BOARD_FAULTS - IDENTITY_FAULTS
    and fault not in {Fault.EXHAUSTED, Fault.RELOADED, Fault.RESET_HANGS}
    for place in places(fault)
]
# The packet before is, at the second try, the right one.
LASTING = [case for case in CASES if case.values[0] != Fault.REPEATED]


@pytest.mark.parametrize(("fault", "dma", "channel"), LASTING)
def test_04_a_lasting_fault_is_an_error(parts, fault, dma, channel):
    """Whatever goes wrong for good is an error, and what is delivered is right; when it has passed,
    channels and engines have been reset and the board works."""
    emulation, board = parts
    with emulation.inject(fault, dma, channel, after=1, times=None) as injection:
        with contextlib.suppress(BoardError):
            round_trip(board, X[:300])
        with pytest.raises(BoardError):
            round_trip(board, X[::-1])
        assert injection.count
        assert emulation.faults.counts[fault] == injection.count
    check_works(board)


@pytest.mark.parametrize(("fault", "dma", "channel"), CASES)
def test_04_a_passing_fault_is_never_half_delivered(parts, fault, dma, channel):
    """What goes wrong once is an error, or the data is right; the next frame is."""
    emulation, board = parts
    check_works(board)
    with emulation.inject(fault, dma, channel) as injection:
        with contextlib.suppress(BoardError):
            np.testing.assert_array_equal(round_trip(board, X[::-1]), X[::-1])
        assert injection.count == 1
        check_works(board)


@pytest.mark.parametrize("dma", [COMPRESS, DECOMPRESS])
@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize(
    "fault", [Fault.FLIPPED_PAYLOAD, Fault.SHORT, Fault.NO_TLAST, Fault.SLAVE_ERROR]
)
@pytest.mark.parametrize("numbers", [(0,), (1,), (2,), (0, 2)])
def test_04_a_failed_frame_is_retried(parts, dma, channel, fault, numbers):
    """A frame that fails is transferred once more after a reset, in a stream of three and the next
    one under way: right data, and the fault is counted."""
    emulation, board = parts
    injected = [emulation.inject(fault, dma, channel, after=number) for number in numbers]
    check_works(board)
    assert [injection.count for injection in injected] == [1] * len(numbers)
    info = board.info()
    assert info["faults"] == info["retries"] == len(numbers)


@pytest.mark.parametrize("dma", [COMPRESS, DECOMPRESS])
@pytest.mark.parametrize("fault", [Fault.FLIPPED_PAYLOAD, Fault.SHORT, Fault.STALLED])
def test_04_a_second_failure_is_reported(parts, dma, fault):
    """The error is the second one, and tells the first; the board can be used on."""
    emulation, board = parts
    with (
        emulation.inject(fault, dma, "s2mm", times=2) as injection,
        pytest.raises(BoardError) as error,
    ):
        round_trip(board, X[:1000])
    assert injection.count == 2
    assert isinstance(error.value.__cause__, BoardError)
    assert (board.info()["faults"], board.info()["retries"]) == (2, 1)
    check_works(board)


def test_04_a_bad_frame_is_not_retried(parts, monkeypatch):
    """Damaged where it was stored, or forged so that only decoding finds it: `FrameError` at
    once."""
    emulation, board = parts
    log = length_writes(emulation, monkeypatch)
    good = actdma.compress(X[:3000], backend="reference")
    for position, forged in ((500, False), (64, True)):
        data = good.data.copy()
        data[position] ^= 1
        if forged:
            data[-4:] = np.frombuffer(crc(data[:-4]).to_bytes(4, "little"), np.uint8)
        bad = Frame(data, good.offsets, good.raw_nbytes, good.dtype, good.codec)
        log.clear()
        with pytest.raises(FrameError):
            actdma.decompress(bad, backend=board)
        assert log == ["receive", "send"]
    assert (board.info()["faults"], board.info()["retries"]) == (0, 0)
    check_works(board)


def test_04_errors_in_words(parts):
    """The status is decoded, and every call after the error begins afresh."""
    emulation, board = parts
    causes = {
        Fault.INTERNAL_ERROR: r"internal error",
        Fault.SLAVE_ERROR: r"the memory refused the access \(status .*slave error",
        Fault.DECODE_ERROR: r"are not mapped to memory \(status .*decode error",
        Fault.HALTED: r"someone else stopped it \(status .*halted",
    }
    for fault, cause in causes.items():
        with (
            emulation.inject(fault, COMPRESS, "mm2s", times=None),
            pytest.raises(BoardError, match=rf"\(MM2S\) failed: .*{cause}"),
        ):
            actdma.compress(X, backend=board)
        check_works(board)


def test_04_a_reset_that_hangs(parts):
    """The wait for a reset is bounded, and the object stays usable when a later one ends."""
    emulation, board = parts
    with (
        emulation.inject(Fault.NO_TLAST, COMPRESS, "s2mm", times=None),
        emulation.inject(Fault.RESET_HANGS, times=None),
        pytest.raises(BoardError, match=r"does not reset within 0\.1 s .*Load the bitstream again"),
    ):
        actdma.compress(X, backend=board)
    with contextlib.suppress(BoardError):
        actdma.compress(X, backend=board)
    check_works(board)


@pytest.fixture
def ctrl_c():
    """What sends a Ctrl-C to this process; it is heard also where a shell has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: os.kill(os.getpid(), signal.SIGINT)
    signal.signal(signal.SIGINT, before)


def test_05_interrupt_resets(ctrl_c):
    """Ctrl-C while a transfer hangs leaves nothing under way."""
    with board_on(options={"probe": None, "timeout": 60}) as (emulation, board):
        threading.Timer(0.5, ctrl_c).start()
        with (
            emulation.inject(Fault.STALLED, COMPRESS, "s2mm", times=None),
            pytest.raises(KeyboardInterrupt),
        ):
            actdma.compress(np.arange(100_000), backend=board)
        assert not emulation.kernels[COMPRESS].sending
        check_works(board)


@pytest.mark.parametrize("engine", [Engine.COMPRESSOR, Engine.DECOMPRESSOR])
@pytest.mark.parametrize("stage", ["fill", "start", "finish", "take"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_05_interrupt_in_any_stage(parts, monkeypatch, engine, stage, number):
    """Ctrl-C in any stage of any frame of a stream: nothing stays under way, no slot is lost."""
    emulation, board = parts
    frame = actdma.compress(X, backend=board, frame_bytes=65536)
    where = Passage if stage in ("fill", "take") else Link
    original, calls = getattr(where, stage), []

    def interrupted(*arguments):
        calls.append(stage)
        if len(calls) == number:
            raise KeyboardInterrupt
        return original(*arguments)

    work = {
        Engine.COMPRESSOR: lambda: actdma.compress(X, backend=board, frame_bytes=65536),
        Engine.DECOMPRESSOR: lambda: actdma.decompress(frame, backend=board),
    }[engine]
    with monkeypatch.context() as patch:
        patch.setattr(where, stage, interrupted)
        with pytest.raises(KeyboardInterrupt):
            work()
    assert len(calls) == number
    for kernel in emulation.kernels.values():
        assert not kernel.sending
        assert not kernel.receiving
    assert board._staging.idle == board._staging.slots
    assert board.info()["retries"] == 0
    check_works(board)


def test_06_awaitable(parts):
    """One awaitable API: results of several tensors at once, and the event loop runs on."""
    _, board = parts
    tensors = [X * k for k in range(1, 6)]

    async def main():
        ticks = []

        async def tick():
            while True:
                ticks.append(None)
                await asyncio.sleep(0)

        ticking = asyncio.ensure_future(tick())
        frames = await asyncio.gather(
            *(actdma.compress_async(x, backend=board, frame_bytes=65536) for x in tensors)
        )
        backs = await asyncio.gather(*(actdma.decompress_async(f, backend=board) for f in frames))
        ticking.cancel()
        return frames, backs, len(ticks)

    frames, backs, ticks = asyncio.run(main())
    for x, frame, back in zip(tensors, frames, backs, strict=True):
        assert bytes(frame) == bytes(actdma.compress(x, backend="reference", frame_bytes=65536))
        np.testing.assert_array_equal(back, x)
    assert ticks > 10


def test_06_errors_are_raised_where_awaited(parts):
    """A fault, a bad frame and a wrong argument, each through the awaitable API."""
    emulation, board = parts
    bad = bytearray(bytes(actdma.compress(X, backend=board)))
    bad[1000] ^= 1

    async def main():
        with pytest.raises(FrameError):
            await actdma.decompress_async(bad, backend=board)
        with pytest.raises(ValueError, match="unknown codec"):
            await actdma.compress_async(X, "lzma", backend=board)
        with (
            emulation.inject(Fault.NO_TLAST, COMPRESS, "s2mm", times=None),
            pytest.raises(BoardTimeoutError, match="no TLAST"),
        ):
            await actdma.compress_async(X, backend=board)
        return await actdma.compress_async(X, backend=board)

    frame = asyncio.run(main())
    np.testing.assert_array_equal(actdma.decompress(frame, backend=board), X)


@pytest.mark.parametrize("fails", [False, True])
def test_06_cancelled(parts, monkeypatch, fails):
    """What is cancelled in the middle of a transfer has ended when that is raised: nothing is under
    way, the caller's memory is not used any more."""
    emulation, board = parts
    in_flight, go_on = threading.Event(), threading.Event()
    finish, ended = Link.finish, []

    def slow(link):
        in_flight.set()
        assert go_on.wait(10)
        ended.append(link.name)
        if fails:
            raise BoardError("failed")
        return finish(link)

    async def main():
        work = asyncio.ensure_future(actdma.compress_async(X, backend=board))
        while not in_flight.is_set():
            await asyncio.sleep(0.001)
        work.cancel()
        await asyncio.sleep(0.01)
        work.cancel()
        assert not work.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert ended == [COMPRESS] * (1 + fails)

    with monkeypatch.context() as patch:
        patch.setattr(Link, "finish", slow)
        asyncio.run(main())
    assert not emulation.kernels[COMPRESS].receiving
    check_works(board)


def test_07_length_register():
    """A DMA built with the default 14-bit length register moves 16383 bytes at most: frames that
    fit go through up to the last byte, larger ones are refused with the limit, before any
    transfer."""
    design = load_design(length_bits=14)
    with board_on(design=design) as (_, board):
        assert board.info()["length_bits"] == 14
        frame = actdma.compress(X, "raw", backend=board, frame_bytes=8192)
        assert frame.raw_nbytes == X.nbytes
        with pytest.raises(ValueError, match=r"up to 16383 bytes\) at most 8192 fit"):
            actdma.compress(X, "raw", backend=board, frame_bytes=16384)
        check_largest(board)


def test_07_a_good_frame_too_long_to_decompress(monkeypatch):
    """A frame that was compressed elsewhere and does not fit this DMA's length register, there or
    back, is refused before the transfer, with the limit: it is not damaged, nor the board."""
    with board_on(design=load_design(length_bits=14)) as (emulation, board):
        for data in (X, np.zeros(40_000, np.float32)):
            frame = actdma.compress(data, backend="reference")
            log = length_writes(emulation, monkeypatch)
            with pytest.raises(ValueError, match=r"register up to 16383 bytes.*'native'") as error:
                actdma.decompress(frame, backend=board)
            assert not isinstance(error.value, FrameError)
            assert not log
        assert board.info()["faults"] == 0


def check_largest(board):
    """The largest packet that fits 14 bits goes through, one beat more is refused."""
    largest = (1 << 14) - 64
    raw = next(n for n in range(largest, 0, -64) if frame_bound(n) <= largest)
    data = np.random.default_rng(0).integers(1, 255, raw, np.uint8)
    assert frame_bound(raw) == largest
    np.testing.assert_array_equal(
        actdma.decompress(actdma.compress(data, backend=board, frame_bytes=16384), backend=board),
        data,
    )
    with pytest.raises(ValueError, match="length register"):
        actdma.compress(np.concatenate([data, data[:1]]), backend=board, frame_bytes=16384)


def test_07_length_register_link():
    """The same at the registers: 2^n - 1 bytes are allowed, 2^n are not."""
    with actdma.emulation.install(
        activate=False, design=load_design(length_bits=14), kernels={COMPRESS: Loopback}
    ) as emulation:
        link = link_on(emulation)
        send, receive = (emulation.device.allocate((1 << 14,), np.uint8) for _ in range(2))
        assert exchange(link, send[:16368], receive[:16383]) == 16368
        with pytest.raises(BoardError, match="16384 bytes do not fit its length register of 14"):
            exchange(link, send, receive)


def test_08_receive_buffer_too_short():
    """A packet longer than the receive buffer is undefined behaviour: buffers hold the worst case.
    An engine that exceeds it is caught by the status, and memory behind the buffer is untouched."""
    with actdma.emulation.install(activate=False, kernels={COMPRESS: Loopback}) as emulation:
        link = link_on(emulation)
        send, receive = (emulation.device.allocate((256,), np.uint8) for _ in range(2))
        send[:] = 7
        receive[:] = 9
        receive.flush()
        with pytest.raises(BoardError, match=r"longer than the 128 bytes of the buffer.*internal"):
            exchange(link, send, receive[:128])
        receive.invalidate()
        assert (receive[128:] == 9).all()
        link.reset()
        assert exchange(link, send, receive) == 256


def test_08_worst_case_fits(parts):
    """Data that does not compress at all fills the receive buffer to its last byte."""
    _, board = parts
    data = np.random.default_rng(1).integers(1, 255, 64 * 1001, np.uint8)
    frame = actdma.compress(data, backend=board)
    assert frame.nbytes == frame_bound(data.size)
    np.testing.assert_array_equal(actdma.decompress(frame, backend=board), data)


def test_09_short_answer_is_normal(parts):
    """An answer shorter than the buffer is no error: exactly its bytes are returned."""
    _, board = parts
    frame = actdma.compress(np.zeros(50_000, np.float32), backend=board)
    assert frame.nbytes == 64 + 128 + 64
    assert bytes(frame) == bytes(actdma.compress(np.zeros(50_000, np.float32), backend="reference"))


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[1:],
        lambda x: x[::2],
        lambda x: x[::-1],
        lambda x: x[:39_999].reshape(3, -1).T,
        lambda x: x.view(np.uint8)[3:10_000],
        lambda x: np.broadcast_to(x[:5], (7, 5)),
    ],
)
def test_10_unaligned_and_strided(parts, view):
    """Unaligned, strided and broadcast arrays go through staging buffers: no exception, right
    data."""
    _, board = parts
    array = view(X)
    back = actdma.decompress(actdma.compress(array, backend=board), backend=board)
    np.testing.assert_array_equal(back, array)


def test_11_a_view_with_gaps(parts):
    """A strided view of a contiguous buffer begins at an aligned address, which is all that pynq
    checks: its elements are gathered, never the bytes between them."""
    emulation, board = parts
    buffer = emulation.device.allocate((40, 1000), np.float32)
    buffer[:] = X.reshape(40, 1000)
    for view in (buffer[:, :16], buffer[::2], buffer.T):
        assert view.physical_address == buffer.physical_address
        back = actdma.decompress(actdma.compress(view, backend=board), backend=board)
        np.testing.assert_array_equal(back, np.array(view))


@pytest.mark.parametrize("dma", [COMPRESS, DECOMPRESS])
@pytest.mark.parametrize("fault", [Fault.SKIPPED_FLUSH, Fault.SKIPPED_INVALIDATE])
def test_12_cache_maintenance_is_needed(parts, fault, dma):
    """The emulated memory lies behind a write-back cache: a driver that forgets to flush or to
    invalidate gets stale data. The checks find it, even where the stale frame has the same
    descriptor."""
    emulation, board = parts
    frames = [actdma.compress(x, "raw", backend=board) for x in (X, X[::-1])]
    actdma.decompress(frames[0], backend=board)
    work = {
        COMPRESS: lambda: actdma.compress(X[5:], "raw", backend=board),
        DECOMPRESS: lambda: actdma.decompress(frames[1], backend=board),
    }
    with emulation.inject(fault, times=None), pytest.raises(BoardError):
        work[dma]()
    check_works(board)


def test_13_contiguous_memory_exhausted():
    """Where the pool does not hold all slots there are fewer, then smaller ones: frames that fit go
    through, with less overlap or none. What cannot fit is an error with what was asked and what the
    pool has, and costs nothing."""
    with actdma.emulation.install(activate=False, memory_bytes=1 << 20) as emulation:
        with open_on(emulation) as board:
            assert 0 < board._staging.nbytes < 1 << 19
            check_works(board)
            slots = board._staging.slots
            with pytest.raises(BoardError, match=r"5\d{5} bytes to send .* pool's 1048576 bytes"):
                actdma.compress(np.arange(1 << 19, dtype=np.int8), "raw", backend=board)
            assert board._staging.slots == slots
            check_works(board)
        assert emulation.memory.live == 0
        with open_on(emulation, frame_bytes=65536) as board:
            assert board._staging.slots == SLOTS
            check_works(board)


@pytest.mark.parametrize("slots", [1, 2, 3, 4])
def test_13_any_number_of_slots(slots):
    """Several threads and both engines over few slots: nobody waits for ever, the data is right."""
    page = 4096
    size = 2 * -(-(frame_bound(65536) + 64) // page) * page
    with board_on(memory_bytes=slots * size + page) as (emulation, board):
        assert board._staging.slots == slots
        assert emulation.memory.live == 2 * slots
        run_threads(lambda _: check_works(board), 3)
        assert board._staging.idle == slots


def test_13_a_larger_frame_takes_the_memory_of_other_slots():
    """Where it cannot be had otherwise, and also while another thread uses these."""
    with board_on(memory_bytes=7 << 17) as (emulation, board):
        assert board._staging.slots == SLOTS
        large = np.arange(70_000, dtype=np.float32)

        def work(number):
            if number:
                check_works(board)
            else:
                frame = actdma.compress(large, "raw", backend=board)
                assert bytes(frame) == bytes(actdma.compress(large, "raw", backend="reference"))

        run_threads(work, 3)
        assert board._staging.slots < SLOTS
        check_works(board)
        assert emulation.memory.live == 2 * board._staging.slots


def test_13_nothing_fits():
    """A pool that does not hold the smallest frame: the board does not open, and says why."""
    with actdma.emulation.install(activate=False, memory_bytes=8192) as emulation:
        with pytest.raises(BoardError, match=r"no contiguous memory .* pool's 8192 bytes"):
            open_on(emulation)
        assert emulation.memory.live == 0


def test_13_exhausted_by_a_larger_frame(parts):
    """A frame that no buffer is left for fails, or goes through smaller ones; smaller frames
    work."""
    emulation, board = parts
    large = np.tile(X, 4)
    with emulation.inject(Fault.EXHAUSTED, times=None), contextlib.suppress(BoardError):
        frame = actdma.compress(large, backend=board, frame_bytes=1 << 20)
        np.testing.assert_array_equal(actdma.decompress(frame, backend=board), large)
    check_works(board)


def test_14_no_buffer_leaks():
    """Closing a board frees every buffer, also after errors."""
    with board_on() as (emulation, board):
        check_works(board)
        opened = emulation.memory.live
        with emulation.inject(Fault.NO_TLAST, times=None), pytest.raises(BoardError):
            actdma.compress(X, backend=board)
        assert emulation.memory.live == opened
        board.close()
        assert emulation.memory.live == 0


def test_15_results_are_owned(parts):
    """A result does not change at the next call, whose data goes through the same buffers."""
    _, board = parts
    first = actdma.compress(X, backend=board)
    kept = bytes(first)
    back = actdma.decompress(first, backend=board)
    actdma.decompress(actdma.compress(X[::-1], backend=board), backend=board)
    assert bytes(first) == kept
    np.testing.assert_array_equal(back, X)
    assert back.flags.owndata or back.base.flags.owndata


def test_16_address_beyond_the_dma():
    """A buffer above what the DMA can address is refused before the transfer."""
    with (
        actdma.emulation.install(activate=False, design=load_design(address_bits=30)) as emulation,
        pytest.raises(BoardError, match=r"beyond the DMA's addresses.*c_addr_width"),
    ):
        open_on(emulation, frame_bytes=65536)


def test_17_address_not_mapped():
    """A decode error names the addresses; a reset clears it."""
    with actdma.emulation.install(activate=False, kernels={COMPRESS: Loopback}) as emulation:
        link = link_on(emulation)
        send, receive = (emulation.device.allocate((64,), np.uint8) for _ in range(2))
        good, receive.device_address = receive.device_address, 0x4000_0000
        with pytest.raises(BoardError, match=r"S2MM.* 0x40000000 to 0x4000003f are not mapped"):
            exchange(link, send, receive)
        link.reset()
        receive.device_address = good
        assert exchange(link, send, receive) == 64


def test_18_overlay_loaded_by_someone_else(parts):
    """The driver notices that its overlay is gone."""
    emulation, board = parts
    pynq.Overlay(emulation.bitfile, device=emulation.device)
    with pytest.raises(BoardError, match="another overlay was loaded"):
        actdma.compress(X, backend=board)


def test_18_overlay_reloaded_in_mid_transfer(parts):
    """The same between two register writes of a transfer: an error, and none of the next calls
    touches the other overlay."""
    emulation, board = parts
    emulation.inject(Fault.RELOADED, after=3)
    with pytest.raises(BoardError):
        actdma.compress(X, backend=board)
    assert emulation.faults.counts[Fault.RELOADED] == 1
    with pytest.raises(BoardError, match="another overlay was loaded"):
        actdma.compress(X, backend=board)
    with open_on(emulation, frame_bytes=65536) as other:
        check_works(other)


def test_19_files_of_an_overlay(tmp_path):
    """A missing .hwh, or one of another bitstream, is found before anything is loaded."""
    bit, hwh = tmp_path / "x.bit", tmp_path / "x.hwh"
    with pytest.raises(BoardError, match=r"x\.bit is missing"):
        check_files(bit)
    bit.write_bytes(b"bits")
    with pytest.raises(BoardError, match=r"x\.hwh is missing"):
        check_files(bit)
    hwh.write_text("handoff")
    check_files(bit)
    lines = [f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f.name}\n" for f in (bit, hwh)]
    bit.with_suffix(".sha256").write_text("".join(lines))
    check_files(bit)
    hwh.write_text("another handoff")
    with pytest.raises(BoardError, match=r"x\.hwh is not the file"):
        check_files(bit)


def test_20_frames_out_of_step(parts):
    """An answer to another frame is an error that names both numbers."""
    emulation, board = parts
    actdma.compress(X[:300], backend=board)
    with (
        emulation.inject(Fault.REPEATED, COMPRESS, "s2mm", after=1, times=None),
        pytest.raises(
            BoardError, match=r"sequence [02], \d+ raw bytes, where sequence 1, 65536 raw"
        ),
    ):
        actdma.compress(X, backend=board, frame_bytes=65536)


def test_20_frames_merged(parts):
    """Two packets in one are an error that names both lengths."""
    emulation, board = parts
    with (
        emulation.inject(Fault.MERGED, COMPRESS, "s2mm", times=None),
        pytest.raises(BoardError, match=r"has 384 bytes, its trailer announces 192.*merged"),
    ):
        actdma.compress(np.zeros(60_000, np.uint8), backend=board)
    check_works(board)


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2)])
def test_21_empty_tensors_never_reach_the_dma(parts, monkeypatch, shape):
    """A transfer of length zero starts nothing and never ends: empty tensors bypass the DMA."""
    emulation, board = parts
    log = length_writes(emulation, monkeypatch)
    frame = actdma.compress(np.empty(shape, np.float32), backend=board)
    back = actdma.decompress(frame, backend=board)
    assert frame.nbytes == 128
    assert back.shape == shape
    assert frame.cycles is None
    assert not log


def test_21_zero_length_starts_nothing():
    """What the DMA does with a length of zero, and what the driver says to it."""
    with actdma.emulation.install(activate=False, kernels={COMPRESS: Loopback}) as emulation:
        link = link_on(emulation)
        buffer = emulation.device.allocate((64,), np.uint8)
        emulation.dmas[COMPRESS].write(0x28, 0)
        assert not emulation.kernels[COMPRESS].sending
        with pytest.raises(BoardError, match="0 bytes do not fit"):
            exchange(link, buffer[:0], buffer)


@pytest.mark.parametrize("fault", IDENTITY_FAULTS)
@pytest.mark.parametrize("dma", [COMPRESS, DECOMPRESS])
def test_22_engine_of_another_version(fault, dma):
    """The engine says which format version it speaks, and what kind it is."""
    with actdma.emulation.install(activate=False, timed=False) as emulation:
        message = rf"{dma} has an engine of kind \d, format version \d .* needs kind \d"
        with emulation.inject(fault, dma, times=None), pytest.raises(BoardError, match=message):
            open_on(emulation)
        assert emulation.memory.live == 0
        with open_on(emulation, frame_bytes=65536) as board:
            check_works(board)


def test_23_threads_share_a_board(parts):
    """Several threads use one board; each gets its own data."""
    _, board = parts

    def work(number):
        data = np.full(30_000, number, np.int32)
        for _ in range(5):
            frame = actdma.compress(data, backend=board, frame_bytes=16384)
            np.testing.assert_array_equal(actdma.decompress(frame, backend=board), data)

    run_threads(work, 4)
    assert board._staging.idle == board._staging.slots


def test_23_both_engines_at_once(parts, monkeypatch):
    """A thread that compresses and one that decompresses do not wait for each other: each is in the
    middle of a transfer when the other is."""
    _, board = parts
    frame = actdma.compress(X, backend=board)
    both, finish = threading.Barrier(2, timeout=10), Link.finish

    def meet(link):
        both.wait()
        return finish(link)

    def work(number):
        if number:
            np.testing.assert_array_equal(actdma.decompress(frame, backend=board), X)
        else:
            assert bytes(actdma.compress(X, backend=board)) == bytes(frame)

    monkeypatch.setattr(Link, "finish", meet)
    run_threads(work, 2)


HOLDER = """
import actdma
from actdma.board import open_on

with actdma.emulation.install(timed=False, activate=False) as emulation:
    board = open_on(emulation, lock="zynq")
    print("open", flush=True)
    if input() == "fork":
        import os, time
        if os.fork() == 0:
            time.sleep(60)
        print("forked", flush=True)
        input()
    board.close()
    print("closed", flush=True)
    input()
"""


@pytest.fixture
def holder():
    """A process that has opened a board with a lock, as a real one; told what to do by lines."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout.readline() == "open\n"
        yield process
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def tell(process, line):
    """Write a line to a process and read its answer."""
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return process.stdout.readline()


def test_23_second_process(holder):
    """The second process gets an error that names the first, and the board when that closes it."""
    with actdma.emulation.install(timed=False, activate=False) as emulation:
        name = re.escape(f"in use by process {holder.pid}: {sys.executable} -c")
        with pytest.raises(BoardError, match=name):
            open_on(emulation, lock="zynq")
        assert tell(holder, "close") == "closed\n"
        with open_on(emulation, lock="zynq") as board:
            check_works(board)
            # The same process may open it again: what a cell run twice does.
            open_on(emulation, lock="zynq").close()
        with open_on(emulation, lock="zynq", frame_bytes=65536) as board:
            check_works(board)


def test_23_first_process_dies(holder):
    """Killed, and with a forked child of it alive: the board is free."""
    assert tell(holder, "fork") == "forked\n"
    with actdma.emulation.install(timed=False, activate=False) as emulation:
        with pytest.raises(BoardError, match="in use by process"):
            open_on(emulation, lock="zynq")
        holder.kill()
        holder.wait()
        with open_on(emulation, lock="zynq") as board:
            check_works(board)


def test_23_the_folder_of_locks(holder, tmp_path, monkeypatch):
    """Whose ACTDMA_LOCKS names another folder does not see the lock."""
    with actdma.emulation.install(timed=False, activate=False) as emulation:
        monkeypatch.setenv("ACTDMA_LOCKS", str(tmp_path))
        with open_on(emulation, lock="zynq") as board:
            check_works(board)
        owner = f"process {os.getpid()}: "
        assert (tmp_path / "actdma-zynq.lock").read_text().startswith(owner)
        monkeypatch.setenv("ACTDMA_LOCKS", str(tmp_path / "missing"))
        with pytest.raises(BoardError, match=r"missing.* cannot be opened: .*No such"):
            open_on(emulation, lock="zynq")


def test_23_a_board_that_did_not_open_is_free():
    """The lock is given back when opening fails after it was taken."""
    with (
        actdma.emulation.install(activate=False, memory_bytes=8192) as emulation,
        pytest.raises(BoardError, match="no contiguous memory"),
    ):
        open_on(emulation, lock="zynq")
    assert not process_lock._held


def run_python(code):
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_24_import_is_silent_and_touches_nothing():
    """Importing the package and the driver prints nothing and imports neither pynq nor torch."""
    code = (
        "import sys, actdma, actdma.board, actdma.emulation\n"
        "assert not {'pynq', 'torch'} & set(sys.modules)"
    )
    assert run_python(code) == ("", "")


def test_24_no_board():
    """Opening a real board where there is none says what is missing."""
    with pytest.raises(BoardError, match=r"no board: .*open_board\(\"emulated\"\)"):
        actdma.open_board("hardware", bitfile="x.bit")


def test_24_no_pynq():
    """Without pynq the error is one sentence that says what to install."""
    code = (
        "import sys; sys.modules['pynq'] = None\n"
        "import actdma\n"
        "try: actdma.open_board('emulated')\n"
        "except RuntimeError as error: print(error)"
    )
    expected = 'the emulated board needs pynq: pip install "actdma[emulation]"\n'
    assert run_python(code) == (expected, "")


def test_26_break_even_of_the_emulated_board():
    """Modelled for a small processor: a few tens to hundreds of KiB, less on a wider stream."""
    found = []
    for lanes in (2, 4, 16):
        with board_on(lanes=lanes, options={"frame_bytes": 4 << 20}) as (_, board):
            found.append(board.break_even_bytes)
            assert board.info()["break_even_bytes"] == board.break_even_bytes
    assert 1 << 14 < found[2] < found[1] < found[0] < 1 << 20


def test_26_break_even_is_measured_on_a_real_board(monkeypatch):
    """Without insight into time, round trips are timed when the board is opened: the emulation is
    slower than the CPU's codec at any size, so the limit is what comes out; a codec that is slowed
    down more gives the size where both take equally long."""
    native = NativeBackend()
    with board_on(options={"probe": None, "frame_bytes": 1 << 20}) as (_, board):
        assert board.break_even_bytes == 1 << 20
        best = crossing(lambda n: 1e-3 + 1e-9 * n, lambda n: 1e-4 + 4e-9 * n, 1 << 20)
        assert best == 300_000
        slow = Slowed(native, 50e-6, 200e-9)
        assert measured_break_even(board, slow, 65536, 1 << 20) < 1 << 18


class Slowed:
    """A backend that takes so many seconds more, and so many per byte."""

    def __init__(self, backend, call, per_byte):
        self.backend, self.call, self.per_byte = backend, call, per_byte

    def compress(self, data, *arguments):
        time.sleep(self.call + self.per_byte * data.size)
        return self.backend.compress(data, *arguments)

    def decompress(self, frame, out):
        time.sleep(self.call + self.per_byte * out.size)
        return self.backend.decompress(frame, out)

"""What users of AXI DMA on PYNQ run into, each fault produced on the emulated board.

The numbers are those of the project's list of faults; the docstring of each test says what the
fault is and what has to happen.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pynq
import pytest

import actdma
from actdma.board import BoardError, BoardTimeoutError, open_on
from actdma.board.link import Link
from actdma.board.opener import check_files
from actdma.emulation import Fault
from actdma.emulation.faults import CHANNELS, DMA_FAULTS, IDENTITY_FAULTS, STREAM_FAULTS
from actdma.frame import answer_bytes, frame_bound
from actdma.overlay.design import load_design
from kernels import Loopback

COMPRESS, DECOMPRESS = "axi_dma_compress", "axi_dma_decompress"
X = np.where(np.arange(40_000) % 3 == 0, np.linspace(-1, 1, 40_000), 0).astype(np.float32)


@contextlib.contextmanager
def board_on(timed=False, options=None, **install):
    """An emulation and a board on it; ``options`` are the board's."""
    with (
        actdma.emulation.install(timed=timed, activate=False, **install) as emulation,
        open_on(emulation, frame_bytes=65536, **(options or {})) as board,
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
    if fault not in IDENTITY_FAULTS | {Fault.EXHAUSTED, Fault.RELOADED, Fault.RESET_HANGS}
    for place in places(fault)
]


@pytest.mark.parametrize(("fault", "dma", "channel"), CASES)
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


def test_05_interrupt_resets():
    """Ctrl-C while a transfer hangs leaves nothing under way."""
    with board_on(options={"probe": None, "timeout": 60}) as (emulation, board):
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with (
            emulation.inject(Fault.STALLED, COMPRESS, "s2mm", times=None),
            pytest.raises(KeyboardInterrupt),
        ):
            actdma.compress(np.arange(100_000), backend=board)
        assert not emulation.kernels[COMPRESS].sending
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
        assert link.exchange(send[:16368], receive[:16383]) == 16368
        with pytest.raises(BoardError, match="16384 bytes do not fit its length register of 14"):
            link.exchange(send, receive)


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
            link.exchange(send, receive[:128])
        receive.invalidate()
        assert (receive[128:] == 9).all()
        link.reset()
        assert link.exchange(send, receive) == 256


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
    """The message says what was asked and what the pool has; nothing stays allocated; smaller
    buffers do."""
    with actdma.emulation.install(activate=False, memory_bytes=1 << 20) as emulation:
        with (
            emulation.inject(Fault.EXHAUSTED, times=None),
            pytest.raises(MemoryError, match=r"\d+ bytes asked.*pool's 1048576 bytes"),
        ):
            open_on(emulation)
        assert emulation.memory.live == 0
        with open_on(emulation, frame_bytes=65536) as board:
            check_works(board)


def test_13_exhausted_by_a_larger_frame(parts):
    """A frame that no buffer is left for fails, or goes through smaller ones; smaller frames
    work."""
    emulation, board = parts
    large = np.tile(X, 4)
    with emulation.inject(Fault.EXHAUSTED, times=None), contextlib.suppress(MemoryError):
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
            link.exchange(send, receive)
        link.reset()
        receive.device_address = good
        assert link.exchange(send, receive) == 64


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
        pytest.raises(BoardError) as error,
    ):
        actdma.compress(X, backend=board, frame_bytes=65536)
    assert "sequence 0, 65536 raw bytes, where sequence 1, 65536 raw" in str(error.value)


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
            link.exchange(buffer[:0], buffer)


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
    wrong = []

    def work(number):
        data = np.full(30_000, number, np.int32)
        for _ in range(5):
            back = actdma.decompress(actdma.compress(data, backend=board), backend=board)
            if not np.array_equal(back, data):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


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

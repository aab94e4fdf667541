"""The driver on the emulated board, beyond the list of faults."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import actdma
from actdma.api import backend_of
from actdma.board import Board, BoardError, open_on, opener
from actdma.board.link import ACCESSES, Link, decode_status
from actdma.board.pipeline import Passage
from actdma.board.staging import SLOTS
from actdma.frame import Codec, DType, Engine, Frame, FrameError


@pytest.fixture(scope="module")
def board():
    with actdma.open_board("emulated") as board:
        yield board


def sparse(size, density=0.5):
    rng = np.random.default_rng(size)
    return np.where(rng.random(size) < density, rng.standard_normal(size), 0).astype(np.float32)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_info(lanes):
    with actdma.open_board("emulated", lanes=lanes) as board:
        assert isinstance(board, Board)
        assert board.kind == "emulated"
        info = board.info()
    assert info.pop("clock_mhz") == pytest.approx(250, rel=1e-3)
    assert info.pop("break_even_bytes") == board.break_even_bytes
    assert info == {
        "kind": "emulated",
        "device": "emulated",
        "board": "emulated Zynq UltraScale+",
        "part": "none",
        "lanes": lanes,
        "codecs": ["raw", "zvc", "zve", "ints", "rle", "pool", "bsr"],
        "length_bits": 26,
        "versions": {"compressor": 1, "decompressor": 1},
        "modelled": True,
        "faults": 0,
        "retries": 0,
    }


def test_frames_above_the_default_size(board):
    """Several frames, and one larger than the buffers that were allocated at once."""
    x = sparse(3_000_000)
    for frame_bytes in (4 << 20, 16 << 20):
        frame = actdma.compress(x, backend=board, frame_bytes=frame_bytes)
        assert len(frame.offsets) - 1 == -(-x.nbytes // frame_bytes)
        assert bytes(frame) == bytes(actdma.compress(x, backend="native", frame_bytes=frame_bytes))
        np.testing.assert_array_equal(actdma.decompress(frame, backend=board), x)


def test_cycles(board):
    """About one input beat per cycle, summed over the frames; none where time is not modelled."""
    x = sparse(1 << 19)
    frame = actdma.compress(x, backend=board, frame_bytes=1 << 20)
    out = np.empty(x.nbytes, np.uint8)
    for cycles in (frame.cycles, board.decompress(frame, out)):
        assert x.nbytes / 16 <= cycles < 1.06 * x.nbytes / 16
    with actdma.open_board("emulated", timed=False) as untimed:
        frame = actdma.compress(x, backend=untimed)
        assert frame.cycles is None
        assert untimed.decompress(frame, out) is None


@pytest.mark.parametrize("frame_bytes", [16384, 131072])
def test_a_long_stream_takes_as_long_as_its_slowest_stage(board, frame_bytes):
    """Modelled, driver included, of 64 frames: the others are hidden behind it, and the time is
    that of the transfer alone at the least. Of one frame: nothing is hidden."""
    raw = sparse(64 * frame_bytes // 4).view(np.uint8)
    clock = 1e6 * board.info()["clock_mhz"]
    frame = board.compress(raw, DType.float32, Codec.ZVC, frame_bytes)
    there, cycles = board.modelled_time, [frame.cycles]
    cycles.append(board.decompress(frame, np.empty_like(raw)))
    for time, fabric in zip((there, board.modelled_time), cycles, strict=True):
        assert fabric / clock < time.stages.transfer < time.seconds < sum(time.stages)
        assert 0.9 * time.seconds <= max(time.stages) <= time.seconds
    board.compress(raw[:frame_bytes], DType.float32, Codec.ZVC, frame_bytes)
    one = board.modelled_time
    assert one.seconds == pytest.approx(sum(one.stages))
    assert one.seconds > 1.5 * there.seconds / 64


def test_without_a_second_slot_nothing_overlaps():
    """The modelled time is that of what the driver did."""
    raw = sparse(100_000).view(np.uint8)
    with (
        actdma.emulation.install(activate=False, memory_bytes=160 << 10) as emulation,
        open_on(emulation, frame_bytes=65536) as board,
    ):
        assert board._staging.slots == 1
        board.compress(raw, DType.float32, Codec.ZVC, 65536)
        time = board.modelled_time
        assert time.seconds == pytest.approx(sum(time.stages))


def test_modelled_time_is_the_threads_own(board):
    board.compress(sparse(5000).view(np.uint8), DType.float32, Codec.ZVC)
    mine, others = board.modelled_time, []

    def work():
        others.append(board.modelled_time)
        board.compress(sparse(90_000).view(np.uint8), DType.float32, Codec.ZVC)
        others.append(board.modelled_time)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert others[0] is None
    assert others[1].seconds > board.modelled_time.seconds == mine.seconds
    with actdma.open_board("emulated", timed=False) as untimed:
        actdma.compress(sparse(5000), backend=untimed)
        assert untimed.modelled_time is None


def test_register_accesses_of_a_transfer(monkeypatch):
    """The number that the model of time counts with."""
    with actdma.emulation.install(activate=False) as emulation, open_on(emulation) as board:
        accesses = []
        for dma in emulation.dmas.values():
            for access in (dma.read, dma.write):

                def counted(*arguments, access=access):
                    accesses.append(arguments)
                    return access(*arguments)

                monkeypatch.setattr(dma, access.__name__, counted)
        actdma.compress(sparse(100_000), backend=board, frame_bytes=65536)
        assert len(accesses) == ACCESSES * -(-400_000 // 65536)


def test_three_frames_are_under_way(board, monkeypatch):
    """While one is in the fabric, the next is copied in and the one before is taken, by another
    thread."""
    raw, log, lock = sparse(50_000).view(np.uint8), [], threading.Lock()
    fill, take, start, finish = Passage.fill, Passage.take, Link.start, Link.finish

    def logged(name, call):
        def work(*arguments):
            with lock:
                log.append((name, threading.get_ident()))
            return call(*arguments)

        return work

    monkeypatch.setattr(Passage, "fill", logged("fill", fill))
    monkeypatch.setattr(Passage, "take", logged("take", take))
    monkeypatch.setattr(Link, "start", logged("start", start))
    monkeypatch.setattr(Link, "finish", logged("finish", finish))
    board.compress(raw, DType.float32, Codec.ZVC, 8192)
    names = [name for name, _ in log]
    frames = -(-raw.size // 8192)
    assert names[:4] == ["fill", "start", "fill", "finish"]
    assert names[-4:] == ["start", "take", "finish", "take"]
    steps = " ".join(names).split("start")[2:-1]
    assert len(steps) == frames - 2
    for step in steps:
        assert sorted(step.split()) == ["fill", "finish", "take"]
        assert step.split()[-1] == "finish"
    takers = {thread for name, thread in log[:-1] if name == "take"}
    assert len(takers) == 1
    assert takers.isdisjoint({thread for name, thread in log if name != "take"})


def test_tensors(board):
    torch = pytest.importorskip("torch")
    x = torch.randn(3, 50, 7).relu().to(torch.bfloat16).transpose(0, 2)
    back = actdma.decompress(actdma.compress(x, backend=board), backend=board)
    assert back.dtype == x.dtype
    assert torch.equal(back, x)


def test_hostile_offsets(board):
    """Frames whose table of contents lies end in an error, and the board works on."""
    frame = actdma.compress(sparse(5000), backend=board)
    for offsets in ((0, 64), (0, 100), (0, frame.nbytes - 64), (64, frame.nbytes), (0, 0)):
        bad = Frame(frame.data, offsets, frame.raw_nbytes, frame.dtype, frame.codec)
        with pytest.raises(FrameError):
            actdma.decompress(bad, backend=board)
    long = np.concatenate([frame.data, np.zeros(64 << 10, np.uint8)])
    with pytest.raises(FrameError):
        actdma.decompress(
            Frame(long, (0, long.size), frame.raw_nbytes, frame.dtype, frame.codec), backend=board
        )
    np.testing.assert_array_equal(actdma.decompress(frame, backend=board), sparse(5000))


def test_closed(board):
    other = actdma.open_board("emulated")
    other.close()
    other.close()
    assert other.closed
    with pytest.raises(BoardError, match="the board is closed"):
        actdma.compress(sparse(10), backend=other)
    assert not board.closed


def test_boards_do_not_disturb_each_other(board):
    """Nor the program's own pynq device."""
    from pynq.pl_server.device import Device

    before = vars(Device).get("_active_device")
    with actdma.open_board("emulated", lanes=8) as other:
        frame = actdma.compress(sparse(10_000), backend=other)
        np.testing.assert_array_equal(actdma.decompress(frame, backend=board), sparse(10_000))
    assert vars(Device).get("_active_device") is before


def test_on_an_installed_emulation():
    with actdma.emulation.install() as emulation, open_on(emulation) as board:
        actdma.compress(sparse(10), backend=board)
        assert emulation.memory.live == 2 * SLOTS


def test_shared_board():
    board = backend_of("board")
    assert board is backend_of("board")
    board.close()
    again = backend_of("board")
    assert again is not board
    again.close()


@pytest.mark.parametrize(
    ("variable", "argument", "expected"),
    [
        ("emulated", None, "emulated"),
        ("hardware", "emulated", "emulated"),
        ("", None, "emulated"),
        ("hardware", "auto", "emulated"),
    ],
)
def test_kind(monkeypatch, variable, argument, expected):
    """The argument wins over ACTDMA_BOARD; "auto" is the emulated board where there is no other."""
    monkeypatch.setenv("ACTDMA_BOARD", variable)
    with actdma.open_board(argument) as board:
        assert board.kind == expected


def test_kind_from_the_environment(monkeypatch):
    monkeypatch.setenv("ACTDMA_BOARD", "hardware")
    with pytest.raises(BoardError, match="no board"):
        actdma.open_board()
    with pytest.raises(ValueError, match="unknown kind of board 'zynq'; known are auto"):
        actdma.open_board("zynq")


def test_a_board_needs_an_overlay(monkeypatch, tmp_path):
    """On a board: without a bitstream, or with files missing, the message says so."""
    monkeypatch.setattr(opener, "find_device", lambda: (object(), ""))
    with pytest.raises(BoardError, match="needs an overlay, and this one is not known"):
        actdma.open_board("auto")
    with pytest.raises(BoardError, match=r"x\.bit is missing"):
        actdma.open_board("hardware", bitfile=tmp_path / "x.bit")


@pytest.mark.parametrize(
    ("machine", "reason"), [("x86_64", "x86_64, not a Zynq"), ("aarch64", "found no device")]
)
def test_no_device(monkeypatch, machine, reason):
    monkeypatch.setattr(opener.platform, "machine", lambda: machine)
    device, why = opener.find_device()
    assert device is None
    assert reason in why


def test_status_in_words():
    assert decode_status(0) == "0x00000000: busy"
    assert decode_status(0x4011) == "0x00004011: halted, internal error, error interrupt"
    assert decode_status(0x1002) == "0x00001002: idle, complete"


@pytest.mark.parametrize("data", [np.zeros(100_000, np.float32), sparse(100_000), sparse(77, 1.0)])
def test_round_trip_of_owned_arrays(board, data):
    back = actdma.decompress(actdma.compress(data, backend=board), backend=board)
    assert back.flags.writeable
    np.testing.assert_array_equal(back, data)


def test_use_within_a_frame_of_the_same_thread(monkeypatch):
    """As a signal handler or finaliser would: refused, and the frame under way is not disturbed."""
    x, refused = sparse(5000), []

    with actdma.open_board("emulated", timed=False) as board:
        good = bytes(actdma.compress(x, backend=board))
        link = board._links[Engine.COMPRESSOR]
        start = link.start

        def interrupted(send, receive):
            for use in (lambda: actdma.compress(sparse(300), backend=board), board.close):
                with pytest.raises(BoardError, match="in use by this very thread"):
                    use()
                refused.append(use)
            return start(send, receive)

        monkeypatch.setattr(link, "start", interrupted)
        assert bytes(actdma.compress(x, backend=board)) == good
        assert len(refused) == 2
        monkeypatch.undo()
        assert bytes(actdma.compress(x, backend=board)) == good


def test_a_forked_child_opens_its_own_board():
    """While a thread of the parent is in a frame, its lock held: an error, and no deadlock. The
    child's close and exit leave the parent's board alone."""
    code = """
import os, pathlib, sys, threading, warnings
import numpy as np
import actdma
from actdma.board import opener

warnings.simplefilter("ignore")
os.environ["ACTDMA_BOARD"] = "emulated"
x = np.arange(30000, dtype=np.float32)
good = bytes(actdma.compress(x, backend="board"))
board = opener.shared_board()
stop = []


def work():
    while not stop:
        assert bytes(actdma.compress(x, backend=board)) == good


thread = threading.Thread(target=work, daemon=True)
thread.start()
for held in (False, True):
    if held:
        opener._shared_lock.acquire()
    child = os.fork()
    if not child:
        try:
            actdma.compress(x, backend=board)
        except opener.BoardError as error:
            assert "opened in another process; open it again" in str(error)
        else:
            os._exit(1)
        assert bytes(actdma.compress(x, backend="board")) == good
        assert opener.shared_board() is not board
        board.close()
        sys.exit(0)
    if held:
        opener._shared_lock.release()
    assert os.waitpid(child, 0)[1] == 0
stop.append(True)
thread.join()
assert opener.shared_board() is board
assert bytes(actdma.compress(x, backend=board)) == good
board.close()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)

"""Several boards behind the protocol of one: frames spread, and a board that dies left out."""

from __future__ import annotations

import contextlib
import copy
import threading

import numpy as np
import pytest

import actdma
import networks
from actdma.backend import ReferenceBackend
from actdma.board import BoardError, open_on
from actdma.emulation import Fault, install
from actdma.frame import Codec, DType, FrameError
from sessions import offload
from test_offload import same_gradients

FRAME = 8192
DATA = np.random.default_rng(0).integers(0, 3, 40 * FRAME, np.uint8)


@pytest.fixture
def emulations():
    """Three emulated boards, of which faults can be had."""
    with contextlib.ExitStack() as stack:
        installed = [install(timed=False, cache=False, activate=False) for _ in range(3)]
        for emulation in installed:
            stack.callback(emulation.close)
        yield installed


@pytest.fixture
def boards(emulations):
    with actdma.Boards([open_on(emulation) for emulation in emulations]) as boards:
        yield boards


def round_trip(backend, data=DATA):
    frame = backend.compress(data, DType.uint8, Codec.ZVC, FRAME)
    assert bytes(frame) == bytes(ReferenceBackend().compress(data, DType.uint8, Codec.ZVC, FRAME))
    out = np.empty(data.size, np.uint8)
    backend.decompress(frame, out)
    np.testing.assert_array_equal(out, data)
    return frame


def kill(emulation):
    for dma in ("axi_dma_compress", "axi_dma_decompress"):
        emulation.inject(Fault.NO_TLAST, dma, "s2mm", times=None)


def transfers(emulation, monkeypatch):
    """The threads' transfers through an emulated board, counted."""
    counted = []
    inner = emulation.cycles
    monkeypatch.setattr(emulation, "cycles", lambda name: counted.append(name) or inner(name))
    return counted


def test_the_frames_of_one_tensor_are_spread_over_all_boards(emulations, monkeypatch):
    counted = [transfers(emulation, monkeypatch) for emulation in emulations]
    with actdma.Boards([open_on(emulation) for emulation in emulations]) as boards:
        for each in counted:
            each.clear()
        round_trip(boards)
    assert all(counted)
    assert sum(map(len, counted)) == 2 * 40


def test_tensors_of_one_frame_go_to_boards_that_have_nothing_to_do(boards):
    threads = [threading.Thread(target=round_trip, args=(boards, DATA[:FRAME])) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(boards._busy.values()) == {0}


def test_a_board_that_dies_is_left_out_and_its_frames_are_done_by_the_others(boards, emulations):
    frame = round_trip(boards)
    kill(emulations[1])
    with pytest.warns(RuntimeWarning, match="a board failed and is left out, 2 remain"):
        round_trip(boards)
    assert len(boards.info()["boards"]) == 2
    assert boards.info()["faults"] >= 2
    out = np.empty(DATA.size, np.uint8)
    boards.decompress(frame, out)  # what was compressed before
    np.testing.assert_array_equal(out, DATA)


def test_without_any_board_left_the_last_ones_fault_is_raised(boards, emulations):
    for emulation in emulations:
        kill(emulation)
    with pytest.warns(RuntimeWarning, match="0 remain"), pytest.raises(BoardError, match="TLAST"):
        round_trip(boards)
    with pytest.raises(BoardError, match="all boards have failed, the last one with"):
        round_trip(boards)


def test_a_damaged_frame_costs_no_board(boards):
    frame = boards.compress(DATA, DType.uint8, Codec.ZVC, FRAME)
    frame.data[3 * FRAME // 2] ^= 1
    with pytest.raises(FrameError):
        boards.decompress(frame, np.empty(DATA.size, np.uint8))
    assert len(boards.info()["boards"]) == 3


def test_a_training_step_goes_on_with_exact_gradients_when_boards_die(boards, emulations):
    model, x = networks.resnet(), networks.images()
    plain = networks.step(copy.deepcopy(model), x)
    kill(emulations[0])
    session = offload(model, backend=boards, break_even_bytes=0)
    with pytest.warns(RuntimeWarning, match="2 remain"):
        assert same_gradients(plain, networks.step(model, x, session))
    assert session.report().faults == 0


def test_what_is_no_board_is_refused():
    with pytest.raises(TypeError, match="expected boards or cards, got str"):
        actdma.Boards(["board"])
    with pytest.raises(ValueError, match="at least one board"):
        actdma.Boards([])


def test_a_closed_set_says_so_and_has_closed_its_boards(emulations):
    each = [open_on(emulation) for emulation in emulations]
    with actdma.Boards(each) as boards:
        pass
    assert all(board.closed for board in each)
    with pytest.raises(BoardError, match="the set of boards is closed"):
        round_trip(boards)

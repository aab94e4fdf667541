"""Thousands of random frames on an emulated board that does everything wrong: benchmarks/soak.py,
shortened. A loss or a leak fails an assertion in there."""

import pytest
from soak import FAULTS, RARE, soak, soak_in_processes

pytestmark = pytest.mark.slow


def test_soak():
    result = soak(1500)
    assert result.frames >= 1500
    seen = set(result.faults)
    assert {fault.value for fault in set(FAULTS) - set(RARE)} <= seen
    assert sum(result.errors.values()) > 0


def test_threads_share_a_board():
    assert soak(600, seed=1, threads=4).frames >= 600


def test_processes_have_a_board_each():
    assert soak_in_processes(600, seed=2, threads=2, processes=2).frames >= 600

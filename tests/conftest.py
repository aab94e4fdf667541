"""Fixtures of several files."""

import os
from pathlib import Path

import pytest
import torch

import actdma
from actdma.backend import ReferenceBackend
from actdma.native import NativeBackend


@pytest.fixture(scope="session", autouse=True)
def locks(tmp_path_factory):
    """A folder for this run's locks: another run on this machine has boards of its own."""
    folder = tmp_path_factory.mktemp("locks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACTDMA_LOCKS", str(folder))
        yield folder


@pytest.fixture(scope="module", params=["reference", "native", "board", "alveo", "boards"])
def backend(request):
    """Each backend, opened once."""
    if request.param == "board":
        with actdma.open_board("emulated", timed=False) as board:
            yield board
    elif request.param == "boards":
        with actdma.Boards(
            [actdma.open_board("emulated", timed=False) for _ in range(2)]
        ) as boards:
            yield boards
    elif request.param == "alveo":
        with actdma.open_alveo("emulated", timed=False) as card:
            yield card
    else:
        yield {"reference": ReferenceBackend, "native": NativeBackend}[request.param]()


@pytest.fixture(scope="session")
def data():
    """A folder with CIFAR-10 and published weights, as the head of benchmarks/networks.py says."""
    if "ACTDMA_DATA" not in os.environ:
        pytest.skip("ACTDMA_DATA does not name a folder with CIFAR-10 and published weights")
    return Path(os.environ["ACTDMA_DATA"])


@pytest.fixture
def one_thread():
    """PyTorch has one thread meanwhile."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)

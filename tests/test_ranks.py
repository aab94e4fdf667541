"""Two ranks under torchrun: gradients of the plain run, one report of both."""

from __future__ import annotations

import collections
import json
import os
import signal
import subprocess
import sys

import pytest
import torch

import networks
from actdma.offloading import gathered
from actdma.offloading.ranks import merged
from sessions import offload
from toolchain import ROOT

RANKS = 2


def torchrun(script, *arguments, folder, timeout=300):
    """Run a script in two ranks on this machine; what it printed. None of it outlives this."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(RANKS), str(script), *map(str, arguments)]
    env = {
        **os.environ,
        "ACTDMA_BOARD": "emulated",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "host"), str(ROOT / "tests")]),
    }
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        pytest.fail(f"no end after {timeout} s: {output}")
    assert process.returncode == 0, output
    return output


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What both ranks found, by way and backend; each run once."""
    cache = {}

    def run(way, backend):
        if (way, backend) not in cache:
            folder = tmp_path_factory.mktemp(way)
            torchrun(ROOT / "tests" / "rank.py", way, backend, folder, folder=folder)
            found = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]
            cache[way, backend] = found
        return cache[way, backend]

    return run


BOTH = pytest.mark.parametrize(
    ("way", "backend"), [("ddp", "native"), ("ddp", "board"), ("fsdp", "native")]
)


@BOTH
def test_gradients_of_every_rank_and_step_are_the_plain_ones_bit_for_bit(results, way, backend):
    for found in results(way, backend):
        assert found["identical"]
        assert found["pairs"] >= 3 * 6
        assert found["records"] > 3


@BOTH
def test_rank_0_has_the_records_of_all_and_the_others_none(results, way, backend):
    first, second = results(way, backend)
    assert second["whole"] is None
    whole = first["whole"]
    assert whole["environment"]["ranks"] == RANKS
    assert [record["index"] for record in whole["records"]] == list(range(len(whole["records"])))
    by_rank = collections.Counter(record["rank"] for record in whole["records"])
    assert by_rank == {0: first["records"], 1: second["records"]}
    totals = whole["totals"]
    assert totals["held_bytes_peak"] == first["held"] + second["held"]
    kept = collections.Counter(first["kept"]) + collections.Counter(second["kept"])
    assert totals["kept"] == dict(kept)
    assert totals["gradients_identical"] is True


@pytest.mark.slow
def test_the_example_trains_on_two_ranks_and_prints_one_report(tmp_path):
    output = torchrun(
        ROOT / "examples" / "ddp.py", "--steps", 2, "--batch", 4, folder=tmp_path, timeout=500
    )
    assert output.count("loss ") == 1
    assert "layer1" in output


def test_gathering_without_a_process_group_says_what_is_missing():
    model = networks.resnet()
    session = offload(model)
    networks.step(model, networks.images(), session)
    with pytest.raises(RuntimeError, match="init_process_group"):
        gathered(session.report())


def test_merging_leaves_the_ranks_own_reports_as_they_are():
    model = networks.resnet()
    reports = []
    for _ in range(2):
        session = offload(model)
        networks.step(model, networks.images(), session)
        reports.append(session.report())
    reports[0].pack_s, reports[1].pack_s = 1.0, 3.0
    reports[0].gradients_identical = True
    whole = merged(reports)
    assert whole.pack_s == 3.0
    assert whole.gradients_identical is None  # nobody compared rank 1's
    assert {record.rank for record in reports[1].records} == {None}
    assert reports[1].records[0].index == 0
    assert whole.totals()["raw_bytes"] == 2 * reports[0].totals()["raw_bytes"]


def test_a_merged_report_names_the_ranks_in_its_table_and_trace(tmp_path):
    model = networks.resnet()
    reports = []
    for _ in range(2):
        session = offload(model)
        networks.step(model, networks.images(), session)
        reports.append(session.report())
    whole = merged(reports)
    lines = str(whole).splitlines()
    assert lines[1].split()[0] == "rank"
    assert {line.split()[0] for line in lines[2 : 2 + len(whole.records)]} == {"0", "1"}
    whole.to_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert sorted(names.values()) == ["rank 0, measured", "rank 1, measured"]
    assert {e["pid"] for e in events if e["ph"] == "X"} == set(names)


def test_a_table_of_what_a_storage_holds_does_not_outlive_a_forward():
    """FSDP uses a storage again under an unchanged version: what was packed of it in the step
    before must not be taken for it."""
    buffer = torch.zeros(4096, requires_grad=False)
    weight = torch.ones(4096, requires_grad=True)
    session = offload(None)
    for value in (1.0, 2.0):
        with torch.autograd._unsafe_preserve_version_counter(buffer):
            buffer.fill_(value)
        with session:
            y = (weight * buffer).sum()
        (gradient,) = torch.autograd.grad(y, weight)
        assert gradient.eq(value).all()

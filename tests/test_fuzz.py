"""The fuzzers of tests/fuzz, each for a minute."""

import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parent / "fuzz"
SECONDS = 60
MOST = f"-max_total_time={SECONDS}"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Where the fuzzers of the C++ are."""
    folder = tmp_path_factory.mktemp("fuzz")
    result = subprocess.run(
        ["make", "-j2", "-C", FUZZ, f"BUILD={folder}"], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return folder


def inputs(result: subprocess.CompletedProcess) -> int:
    """How many a fuzzer that has found nothing has run."""
    assert result.returncode == 0, result.stdout + result.stderr
    done, count, *_ = result.stdout.splitlines()[-1].split()
    assert done == "done:"
    return int(count)


def start(command: list, folder: Path) -> subprocess.Popen:
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("targets", [["native", "python"], ["decompress", "compress"]])
def test_a_minute_of_hostile_input_finds_nothing(built, tmp_path, targets):
    """Two at a time."""
    programs = {name: [built / f"fuzz_{name}"] for name in ("native", "decompress", "compress")}
    programs["python"] = [sys.executable, FUZZ / "python.py"]
    running = []
    for name in targets:
        folder = tmp_path / name
        folder.mkdir()
        running.append(start([*programs[name], MOST], folder))
    for process in running:
        out, errors = process.communicate()
        result = subprocess.CompletedProcess(process.args, process.returncode, out, errors)
        assert inputs(result) >= 1024


@pytest.mark.slow
def test_a_fuzzer_finds_what_is_wrong_and_leaves_the_input(built, tmp_path):
    """A target that writes past its memory."""
    source = tmp_path / "blind.cpp"
    source.write_text(
        '#include "target.hpp"\n'
        "const actdma::fuzz::Packet actdma::fuzz::kKind = Packet::kFrame;\n"
        "int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {\n"
        "  const auto out = actdma::fuzz::exact(8);\n"
        "  for (size_t i = 64; i < size; i++) out[data[i] % 16] = 1;\n"
        "  return 0;\n"
        "}\n"
    )
    root = FUZZ.parents[1]
    includes = [f"-I{d}" for d in (FUZZ, root / "hls/include", root / "host/actdma/native")]
    flags = ["-std=c++17", "-Wno-unknown-pragmas", "-fsanitize=address,undefined", *includes]
    objects = [
        *built.glob("codec/*.o"),
        *(built / f"{n}.o" for n in ("frames", "mutator", "driver")),
    ]
    subprocess.run(["g++", *flags, source, *objects, "-o", tmp_path / "blind"], check=True)
    result = subprocess.run(
        [tmp_path / "blind", "-runs=1000"], cwd=tmp_path, capture_output=True, text=True
    )
    assert result.returncode != 0
    assert "heap-buffer-overflow" in result.stderr
    again = subprocess.run(
        [tmp_path / "blind", "crash"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "heap-buffer-overflow" in again.stderr

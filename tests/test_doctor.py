"""`actdma doctor`: what it finds where things are right, absent and wrong."""

import importlib.metadata
import sys

import numpy as np
import pytest
from packaging.requirements import Requirement

from actdma import cli, doctor
from actdma.api import ReferenceBackend
from actdma.doctor import boards, machine, packages, transfers
from actdma.doctor.finding import Finding, State

REQUIRES = [
    "numpy>=1.24",
    'torch>=2.4; extra == "torch"',
    'pynq<5,>=3.1; extra == "emulation"',
    'no-such-package>=2; extra == "report"',
    'numpy>=99; extra == "board"',
    'actdma[emulation,torch]; extra == "demo"',
    'no-such-package; extra == "demo"',
]


@pytest.fixture
def installed(monkeypatch):
    """Metadata of an installed actdma that wants `REQUIRES`."""

    def metadata(version="0.1.0", python=">=3.10"):
        found = {"Version": version, "Requires-Python": python}
        monkeypatch.setattr(packages, "VERSION", "0.1.0")
        monkeypatch.setattr(importlib.metadata, "metadata", lambda name: found)
        monkeypatch.setattr(importlib.metadata, "requires", lambda name: REQUIRES)
        return {finding.subject: finding for finding in packages.findings()}

    return metadata


def test_all_is_well_here(capsys):
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "Nothing is wrong." in out
    assert "emulated Zynq UltraScale+" in out
    assert "zve" in out
    assert "WRONG" not in out
    assert max(map(len, out.splitlines())) <= 100


def test_extras_are_told_apart_by_what_is_missing(installed):
    found = installed()
    assert found["requirements"].state is State.GOOD
    assert found["extra torch"].state is State.GOOD
    assert found["extra report"] == Finding(
        "extra report",
        State.ABSENT,
        "no-such-package is missing",
        "pip install 'actdma[report]'",
    )
    assert found["extra board"].state is State.WRONG
    assert "needed is >=99" in found["extra board"].found
    assert found["extra demo"].state is State.ABSENT  # through its other extras, too


def test_another_version_on_the_path_is_wrong(installed):
    found = installed(version="0.0.9")["actdma"]
    assert found.state is State.WRONG
    assert "0.1.0 runs, 0.0.9 is installed" in found.found


def test_an_unknown_python_is_wrong(installed):
    assert installed(python=">=4")["Python"].state is State.WRONG


def test_every_extra_it_looks_at_is_one_of_the_package():
    names = {
        extra
        for line in importlib.metadata.requires("actdma")
        if (marker := Requirement(line).marker)
        for extra in packages._EXTRAS
        if marker.evaluate({"extra": extra})
    }
    assert names == set(packages._EXTRAS)


@pytest.mark.parametrize("direction", ["compress", "decompress"])
def test_a_transfer_that_changes_a_bit_is_found(direction):
    class Broken(ReferenceBackend):
        def compress(self, data, *how):
            frame = super().compress(data, *how)
            if direction == "compress":
                frame.data[100] ^= 1
            return frame

        def decompress(self, frame, out):
            super().decompress(frame, out)
            out[-1] ^= direction == "decompress"

    assert transfers.differing(ReferenceBackend(), ["zvc", "ints", "pool", "bsr"]) == []
    assert transfers.differing(Broken(), ["zve", "raw"]) == ["zve", "raw"]


@pytest.mark.parametrize(
    ("free_kib", "state"), [(131072, State.GOOD), (20480, State.WRONG), (None, State.WRONG)]
)
def test_contiguous_memory_is_held_to_the_buffers(tmp_path, free_kib, state):
    lines = ["MemTotal:  2000000 kB"]
    if free_kib is not None:
        lines += ["CmaTotal:  131072 kB", f"CmaFree:  {free_kib} kB"]
    (tmp_path / "meminfo").write_text("\n".join(lines))
    assert boards._contiguous_memory(tmp_path / "meminfo").state is state


def test_a_known_board_without_its_bitstream_is_told_what_to_fetch(monkeypatch, tmp_path):
    monkeypatch.setenv("ACTDMA_CACHE", str(tmp_path))
    monkeypatch.setattr(boards, "find_device", lambda: (object(), ""))
    monkeypatch.setattr(boards, "this_board", lambda known: "kv260")
    found = list(boards._zynq())[-1]
    assert found.state is State.WRONG
    assert found.advice == "actdma fetch --board kv260 --from URL-or-folder"


def test_an_unknown_board_is_told_the_known_ones(monkeypatch):
    monkeypatch.setattr(boards, "find_device", lambda: (object(), ""))
    monkeypatch.setenv("BOARD", "mars-zx3")
    (found,) = boards._zynq()
    assert found.state is State.ABSENT
    assert "'mars-zx3'; known are" in found.found


def test_a_board_that_cannot_be_opened_is_wrong(monkeypatch):
    def fails():
        raise boards.BoardError("the board is in use by process 7")

    found = boards._transfer("Zynq board", fails)
    assert (found.state, found.found) == (State.WRONG, "the board is in use by process 7")


def test_a_card_without_xrt_is_wrong_only_if_asked_for(monkeypatch):
    assert boards._alveo(None).state is State.ABSENT
    asked = boards._alveo("missing.xclbin")
    assert (asked.state, asked.advice) == (State.WRONG, "docs/troubleshooting.md")


def test_variables_and_folders(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ACTDMA_BOARD", "toy")
    monkeypatch.setenv("ACTDMA_CACHE", str(tmp_path / "new" / "folder"))
    monkeypatch.setenv("ACTDMA_LOCKS", str(tmp_path / "file" / "below"))
    found = {finding.subject: finding for finding in machine._environment()}
    assert found["ACTDMA_BOARD"].state is State.WRONG
    assert "auto, emulated, hardware" in found["ACTDMA_BOARD"].advice
    assert found["bitstreams' cache"].state is State.GOOD
    assert found["boards' locks"].state is State.WRONG
    assert "ACTDMA_LOCKS" in found["boards' locks"].advice
    assert not (tmp_path / "new").exists()


def test_an_examination_that_fails_is_a_finding(monkeypatch):
    def fails():
        raise OSError("no /proc")

    monkeypatch.setattr(machine, "_codec", fails)
    wrong = [finding for finding in doctor.examine() if finding.state is State.WRONG]
    assert [finding.subject for finding in wrong] == ["machine"]
    assert "OSError: no /proc" in wrong[0].found
    assert doctor.verdict(wrong) == "1 of 1 wrong: see above."


def test_what_is_wrong_is_the_exit_code(monkeypatch, capsys):
    wrong = Finding("board", State.WRONG, "word " * 40, "do something")
    monkeypatch.setattr(doctor, "examine", lambda xclbin: iter([wrong]))
    assert cli.main(["doctor"]) == cli.common.FOUND_WRONG
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("WRONG board")
    assert second.startswith(" " * 25 + "word")


def test_instruction_sets_are_as_before():
    _native = pytest.importorskip("actdma.native._native")
    before = _native.isa()
    assert machine._codec().state is State.GOOD
    assert _native.isa() == before


def test_data_is_no_whole_number_of_blocks():
    assert transfers._data("zvc").nbytes > 8192
    assert transfers._data("zvc").nbytes % 8192
    assert transfers._data("ints").dtype == np.int32


def test_completion_knows_every_command(capsys):
    pytest.importorskip("shtab")
    assert cli.main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert all(command in script for command in ("measure", "bench", "doctor", "fetch"))


def test_a_machine_without_torch_is_no_fault(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert machine._torch().state is State.ABSENT

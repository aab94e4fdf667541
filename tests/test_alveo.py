"""Alveo: the v++ configurations, the emulated pyxrt, and the driver on it.

What every backend must do is in test_backends.py, the tops with memory ports in hls/tb/tb_maxi.cpp.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import actdma
from actdma.alveo import open_on
from actdma.backend import ReferenceBackend
from actdma.board import BoardError, BoardTimeoutError
from actdma.emulation import EmulatedCard, Fault
from actdma.emulation.xrt import write_xclbin
from actdma.frame import Codec, Descriptor, DType, Engine, Frame, FrameError, Status, Trailer
from actdma.overlay.design import load_platforms

ROOT = Path(__file__).parents[1]
OVERLAY = ROOT / "overlay"
PLATFORMS = ("u50", "u250")
KERNELS = ("actdma_compress_maxi", "actdma_decompress_maxi")


def load_generator():
    spec = importlib.util.spec_from_file_location("alveo_generator", OVERLAY / "alveo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generator = load_generator()


def sparse(size, density=0.5):
    rng = np.random.default_rng(size)
    return np.where(rng.random(size) < density, rng.standard_normal(size), 0).astype(np.float32)


@pytest.fixture
def card():
    with EmulatedCard("u50", timed=False) as card:
        yield card


# The v++ configurations.


def options(text):
    """{section: [(key, value)]} of a v++ configuration; "" is what comes before any section."""
    sections, name = {"": []}, ""
    for line in filter(None, text.splitlines()):
        if match := re.fullmatch(r"\[(\w+)\]", line):
            name = match[1]
            sections[name] = []
        else:
            key, value = line.split("=", 1)
            sections[name].append((key, value))
    return sections


def memory_ports(kernel):
    """The arguments that are memory ports, as the kernel's source says. HLS gives VHDL's words
    another name in the kernel, which no sp line would find."""
    source = (ROOT / "hls/src" / f"{kernel}.cpp").read_text()
    assert f"void {kernel}(" in source
    ports = re.findall(r"mode = m_axi port = (\w+)", source)
    assert not {"in", "out", "buffer", "access"} & set(ports)
    return ports


@pytest.fixture(params=PLATFORMS)
def configured(request, tmp_path):
    generator.main(request.param, str(tmp_path))
    return load_platforms()[request.param], tmp_path


def test_every_port_of_every_unit_is_at_a_bank_that_exists(configured):
    platform, folder = configured
    config = options((folder / "link.cfg").read_text())
    assert config.keys() == {"", "connectivity"}
    counts = [value.split(":") for key, value in config["connectivity"] if key == "nk"]
    units = {
        f"{kernel}_{number}": kernel
        for kernel, count in counts
        for number in range(1, int(count) + 1)
    }
    assert {kernel for kernel, _ in counts} == set(KERNELS)
    assert all(int(count) > 1 for _, count in counts)
    mapped = dict(value.split(":") for key, value in config["connectivity"] if key == "sp")
    assert len(mapped) == sum(key == "sp" for key, _ in config["connectivity"])
    ports = {f"{unit}.{port}" for unit, kernel in units.items() for port in memory_ports(kernel)}
    assert len(ports) == 8
    assert mapped.keys() == ports
    memory = platform["memory"]
    for bank in mapped.values():
        name, number = re.fullmatch(r"(\w+)\[(\d+)\]", bank).groups()
        assert name == memory["name"]
        assert int(number) < memory["banks"]
    if memory["name"] == "HBM":
        assert len(set(mapped.values())) == len(mapped)


def test_units_lie_in_the_slr_of_their_bank():
    """U250: DDR[n] is in SLRn, and every unit is placed."""
    platform = generator.load("u250")
    config = options(generator.link_config(platform))["connectivity"]
    placed = dict(value.split(":") for key, value in config if key == "slr")
    assert len(set(placed.values())) == len(placed) == 4
    for key, value in config:
        if key == "sp":
            port, bank = value.split(":")
            assert placed[port.partition(".")[0]] == f"SLR{re.search(r'[0-9]+', bank)[0]}"


def test_kernels_are_compiled_for_the_platform(configured):
    platform, folder = configured
    for kernel in KERNELS:
        config = options((folder / f"{kernel}.cfg").read_text())
        link = options((folder / "link.cfg").read_text())
        assert (
            dict(config[""])
            == dict(link[""])
            == {
                "platform": platform["platform"],
                "freqhz": f"{platform['clock_mhz']}000000",
            }
        )
        hls = dict(config["hls"])
        assert hls["syn.top"] == kernel
        assert Path(hls["syn.file"]).name == f"{kernel}.cpp"
        assert hls["package.output.format"] == "xo"
        assert Path(hls["package.output.file"]) == folder / f"{kernel}.xo"
        assert f"-DACTDMA_LANES={platform['lanes']}" in hls["syn.cflags"].split()
        files = [value for key, value in config["hls"] if key.endswith(".file")]
        assert all(Path(file).is_file() for file in files if not file.endswith(".xo"))


@pytest.mark.parametrize(
    ("platform", "old", "new", "message"),
    [
        (
            "u50",
            '"HBM[7]"',
            '"HBM[32]"',
            r"answer of actdma_decompress_maxi_2 is at HBM\[32\]",
        ),
        ("u50", 'packet = "HBM[2]", ', "", "port packet of actdma_compress_maxi_2 is at None"),
        (
            "u250",
            'slr = "SLR3"',
            'slr = "SLR4"',
            "decompress_maxi_2 is in SLR4, allowed are SLR0",
        ),
    ],
)
def test_wrong_tables_are_refused(tmp_path, platform, old, new, message):
    text = (OVERLAY / "alveo.toml").read_text()
    assert text.count(old) == 1
    table = tmp_path / "alveo.toml"
    table.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=message):
        generator.load(platform, table)


def make(*arguments, path=None):
    environment = {"PATH": path or "/usr/bin:/bin"}
    command = ["make", "-C", OVERLAY, "-f", "alveo.mk", f"PYTHON={sys.executable}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_unknown_platform_is_one_sentence(tmp_path):
    result = make("PLATFORM=u280", f"ALVEO_BUILD={tmp_path}", "alveo-configs")
    assert result.returncode != 0
    assert "unknown platform 'u280'; known are u50, u250" in result.stderr


@pytest.mark.skipif(shutil.which("v++") is not None, reason="Vitis is installed")
def test_missing_vitis_is_one_sentence(tmp_path):
    result = make("PLATFORM=u250", f"ALVEO_BUILD={tmp_path}")
    assert result.returncode != 0
    assert "v++ is missing: source Vitis' settings64.sh first" in result.stderr


def test_build_with_a_stub_of_vitis(tmp_path):
    """Each kernel is compiled once, then all are linked; what was made is listed with its sum."""
    tools, build = tmp_path / "bin", tmp_path / "build"
    tools.mkdir()
    stub = tools / "v++"
    stub.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {tmp_path}/calls\n'
        'case "$1" in\n'
        '-c) file=$(sed -n "s/package.output.file=//p" "$5"); echo xo > "$file" ;;\n'
        '-l) while [ "$1" != -o ]; do shift; done; cat "$3" "$4" > "$2" ;;\n'
        "esac\n"
    )
    stub.chmod(0o755)
    for _ in range(2):
        result = make(f"ALVEO_BUILD={build}", path=f"{tools}:/usr/bin:/bin")
        assert result.returncode == 0, result.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    assert sorted(calls[:2]) == [
        f"-c --mode hls --config {build}/{k}.cfg --work_dir {build}/{k}" for k in KERNELS
    ]
    assert calls[2:] == [
        f"-l -t hw --config {build}/link.cfg --temp_dir {build}/link -o {build}/actdma.xclbin "
        f"{build}/{KERNELS[0]}.xo {build}/{KERNELS[1]}.xo"
    ]
    assert (build / "actdma.xclbin").read_text() == "xo\nxo\n"
    check = subprocess.run(["sha256sum", "-c", "actdma.sha256"], cwd=build, capture_output=True)
    assert check.returncode == 0


# The driver.


@pytest.mark.parametrize("platform", PLATFORMS)
def test_info(platform):
    table = load_platforms()[platform]
    with actdma.open_alveo("emulated", platform=platform) as card:
        assert card.info() == {
            "kind": "emulated",
            "device": table["platform"],
            "platform": table["platform"],
            "clock_mhz": 300.0,
            "lanes": 16,
            "codecs": [codec.name.lower() for codec in Codec],
            "units": {"compressor": 2, "decompressor": 2},
            "versions": {"compressor": 1, "decompressor": 1},
            "modelled": True,
        }


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_frames_are_the_same_at_every_width(lanes):
    """Also frames above the size that buffers were allocated for."""
    x = sparse(50_000)
    with actdma.open_alveo("emulated", lanes=lanes, timed=False, frame_bytes=8192) as card:
        for frame_bytes in (8192, 65536, 1 << 20):
            frame = actdma.compress(x, backend=card, frame_bytes=frame_bytes)
            native = actdma.compress(x, backend="native", frame_bytes=frame_bytes)
            assert bytes(frame) == bytes(native)
            np.testing.assert_array_equal(actdma.decompress(frame, backend=card), x)


def test_cycles():
    """About a beat per cycle with the memory's latency, summed over the frames; none untimed."""
    x = sparse(1 << 20)
    out = np.empty(x.nbytes, np.uint8)
    with actdma.open_alveo("emulated") as card:
        frame = actdma.compress(x, backend=card)
        for cycles in (frame.cycles, card.decompress(frame, out)):
            assert x.nbytes / 64 <= cycles < 1.08 * x.nbytes / 64
        halves = actdma.compress(x, backend=card, frame_bytes=2 << 20)
        assert frame.cycles < halves.cycles < 1.05 * frame.cycles
    with actdma.open_alveo("emulated", timed=False) as card:
        assert actdma.compress(x, backend=card).cycles is None
        assert card.decompress(frame, out) is None


@pytest.mark.parametrize("kernel", KERNELS)
def test_units_work_at_the_same_time(card, kernel):
    """Each unit begins its work only when the other has been started, too."""
    x = sparse(20_000)
    with open_on(card) as driver:
        both = threading.Barrier(2)
        for number in (1, 2):
            unit = card.units[f"{kernel}_{number}"]
            unit._engine = Waiting(unit._engine, both)
        frame = actdma.compress(x, backend=driver, frame_bytes=8192)
        assert (len(frame.offsets) - 1) == 10
        np.testing.assert_array_equal(actdma.decompress(frame, backend=driver), x)


class Waiting:
    """A compute unit that begins when all others have been started."""

    def __init__(self, engine, others):
        self._engine = engine
        self._others = others

    def run(self, *arguments):
        self._others.wait(timeout=20)
        return self._engine.run(*arguments)


def test_odd_number_of_frames(card):
    for size in (2048, 4096, 6144 + 1):
        x = sparse(size)
        with open_on(card) as driver:
            frame = actdma.compress(x, backend=driver, frame_bytes=8192)
            assert bytes(frame) == bytes(actdma.compress(x, backend="native", frame_bytes=8192))
            np.testing.assert_array_equal(actdma.decompress(frame, backend=driver), x)


def damaged(frame, *positions):
    data = frame.data.copy()
    for position in positions:
        data[position] ^= 0x10
    return Frame(data, frame.offsets, frame.raw_nbytes, frame.dtype, frame.codec)


def test_the_first_bad_frame_is_reported(card):
    """Also where a later one can be refused without running anything; the card works on."""
    x = sparse(10_000)
    good = actdma.compress(x, backend="native", frame_bytes=8192)
    starts = good.offsets
    out = np.empty(x.nbytes, np.uint8)
    with open_on(card) as driver:
        for positions in (
            (starts[1] + 70, starts[2]),
            (starts[0] + 64, starts[1] + 1),
            (starts[2] - 1, starts[3] + 64),
            (starts[4] + 3,),
        ):
            bad = damaged(good, *positions)
            found = []
            for backend in (ReferenceBackend(), driver):
                with pytest.raises(FrameError) as error:
                    backend.decompress(bad, out)
                found.append(error.value.status)
            assert found[0] == found[1], positions
            np.testing.assert_array_equal(actdma.decompress(good, backend=driver), x)


def test_an_exception_lets_the_other_units_end(card, monkeypatch):
    """Frames under way when the first is bad: their buffers are free again afterwards."""
    x = sparse(10_000)
    with open_on(card) as driver:
        good = actdma.compress(x, backend=driver, frame_bytes=8192)

        def stop(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr("actdma.board.jobs.check_frame", stop)
        with pytest.raises(KeyboardInterrupt):
            actdma.compress(x, backend=driver, frame_bytes=8192)
        monkeypatch.undo()
        assert not any(unit.running for unit in driver._units[Engine.COMPRESSOR])
        assert bytes(actdma.compress(x, backend=driver, frame_bytes=8192)) == bytes(good)


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (
            Fault.RUN_ENDLESS,
            BoardTimeoutError,
            r"did not end within 0\.5 s \(state TIMEOUT; 128 bytes",
        ),
        (Fault.RUN_STUCK, BoardTimeoutError, r"did not end within 0\.5 s \(state SUBMITTED"),
        (Fault.RUN_ERROR, BoardError, r"failed \(state ERROR; 128 bytes to send, room for"),
        (Fault.RUN_ABORTED, BoardError, r"failed \(state ABORT"),
        (Fault.RUN_UNANSWERED, BoardError, r"failed \(state NORESPONSE"),
    ],
)
def test_runs_that_do_not_complete(card, fault, error, message):
    """The unit and what it was asked are named; the card is not used any more."""
    x = np.ones(16, np.float32)
    with open_on(card, timeout=0.5) as driver:
        card.inject(fault, "actdma_compress_maxi_1")
        with pytest.raises(error, match="actdma_compress_maxi_1 " + message):
            actdma.compress(x, backend=driver)
        with pytest.raises(BoardError, match="not used any more since actdma_compress_maxi_1"):
            actdma.compress(x, backend=driver)
        assert card.faults.counts == {fault: 1}
    with open_on(card) as driver:
        actdma.compress(x, backend=driver)


def test_faults_a_card_has_not(card):
    with pytest.raises(ValueError, match="NO_TLAST cannot happen here; allowed are RUN_ERROR"):
        card.inject(Fault.NO_TLAST)
    with pytest.raises(ValueError, match="unit of RUN_ERROR is 'x', allowed is one of actdma_"):
        card.inject(Fault.RUN_ERROR, "x")


def test_a_fault_in_the_middle_of_a_tensor(card):
    """The unit that is still at work ends first."""
    x = sparse(20_000)
    with open_on(card) as driver:
        card.inject(Fault.RUN_ERROR, "actdma_compress_maxi_2")
        with pytest.raises(BoardError, match="actdma_compress_maxi_2 failed"):
            actdma.compress(x, backend=driver, frame_bytes=8192)
        first, second = driver._units[Engine.COMPRESSOR]
        assert (first.running, first.broken) == (False, "")
        assert second.broken


def test_an_answer_that_does_not_fit(card, monkeypatch):
    """The kernel says so and the card can be used on."""
    x = np.arange(1, 4097, dtype=np.float32)
    with open_on(card) as driver:
        monkeypatch.setattr("actdma.frame.Descriptor.frame_bound", 1024)
        with pytest.raises(
            BoardError, match=r"answer of 16576 bytes does not fit the 1024 there is room for"
        ):
            actdma.compress(x, backend=driver)
        monkeypatch.undo()
        np.testing.assert_array_equal(
            actdma.decompress(actdma.compress(x, backend=driver), backend=driver), x
        )


def test_lengths_no_kernel_of_ours_says(card):
    class Other:
        def __init__(self, length):
            self.length = length

        def run(self, _, out, *__):
            out[:8] = np.array([self.length, 0], "<u4").view(np.uint8)
            return 0

    with open_on(card) as driver:
        for length in (0, 65, 1 << 30):
            card.units["actdma_compress_maxi_1"]._engine = Other(length)
            with pytest.raises(BoardError, match=f"says its answer has {length} bytes"):
                actdma.compress(np.ones(9, np.float32), backend=driver)


def test_no_room_in_the_cards_memory(card):
    with open_on(card, frame_bytes=8192) as driver:
        card.free.update(dict.fromkeys(card.free, 100_000))
        with pytest.raises(BoardError, match=r"no room for a buffer of \d+ bytes.*bank HBM\[0\]"):
            actdma.compress(sparse(100_000), backend=driver)
        actdma.compress(sparse(10_000), backend=driver)


def test_buffers_are_allocated_once_and_freed(card):
    before = dict(card.free)
    with open_on(card, frame_bytes=65536) as driver:
        opened = dict(card.free)
        assert sum(before.values()) > sum(opened.values())
        for _ in range(3):
            actdma.compress(sparse(40_000), backend=driver, frame_bytes=65536)
        assert card.free == opened
    assert card.free == before


def test_closed(card):
    driver = open_on(card)
    driver.close()
    driver.close()
    assert driver.closed
    with pytest.raises(BoardError, match="the card is closed"):
        actdma.compress(sparse(10), backend=driver)


def test_use_within_a_frame_of_the_same_thread(card, monkeypatch):
    """As a signal handler or finaliser would: refused, and the frame under way is not disturbed."""
    x = sparse(5000)
    with open_on(card) as driver:
        unit = driver._units[Engine.COMPRESSOR][0]
        finish = unit.finish

        def interrupted():
            for use in (lambda: actdma.compress(sparse(300), backend=driver), driver.close):
                with pytest.raises(BoardError, match="the card is in use by this very thread"):
                    use()
            return finish()

        monkeypatch.setattr(unit, "finish", interrupted)
        assert bytes(actdma.compress(x, backend=driver)) == bytes(actdma.compress(x))


def test_threads_take_turns(card):
    """Tensors of several threads, each of several frames, on the same units."""
    tensors = [sparse(size) for size in (9000, 12_000, 15_000)]
    with open_on(card) as driver:

        def work(x):
            for _ in range(5):
                frame = actdma.compress(x, backend=driver, frame_bytes=8192)
                back = actdma.decompress(frame, backend=driver)
                good.append(bool((back == x).all()))

        good = []
        threads = [threading.Thread(target=work, args=(x,)) for x in tensors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert good == [True] * 15


def test_codec_that_is_not_built_in(card):
    with open_on(card) as driver:
        driver._codecs &= ~(1 << Codec.ZVC)
        with pytest.raises(ValueError, match="codec zvc is not on this card; it has"):
            actdma.compress(sparse(10), backend=driver)


def test_another_engine(card):
    """Units of one kernel under the other's name: identify tells."""
    for number in (1, 2):
        card.units[f"{KERNELS[0]}_{number}"]._engine = card.units[f"{KERNELS[1]}_1"]._engine
    with pytest.raises(BoardError, match=r"actdma_compress_maxi_1 has an engine of kind 2"):
        open_on(card)


# Opening.


def test_unknown_kind_and_platform():
    with pytest.raises(ValueError, match="unknown kind of card 'u50'; known are hardware, em"):
        actdma.open_alveo("u50")
    with pytest.raises(ValueError, match="unknown platform 'u280'; known are u50, u250"):
        actdma.open_alveo("emulated", platform="u280")


def test_hardware_without_pyxrt(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyxrt", None)
    with pytest.raises(BoardError, match=r"pyxrt is missing.*open_alveo\(\"emulated\"\) works"):
        actdma.open_alveo(xclbin="actdma.xclbin")


def test_hardware(card, tmp_path):
    """The way to a real card, with the emulated pyxrt in the place of the real one."""
    card.activate()
    x = sparse(5000)
    with actdma.open_alveo(xclbin=card.xclbin) as driver:
        assert driver.info()["kind"] == "hardware"
        assert not driver.info()["modelled"]
        np.testing.assert_array_equal(
            actdma.decompress(actdma.compress(x, backend=driver), backend=driver), x
        )
    with pytest.raises(BoardError, match="a real card needs an xclbin"):
        actdma.open_alveo()
    with pytest.raises(BoardError, match=r"none\.xclbin is missing"):
        actdma.open_alveo(xclbin=tmp_path / "none.xclbin")
    with pytest.raises(BoardError, match="onto card 1: Could not open device"):
        actdma.open_alveo(xclbin=card.xclbin, device=1)
    other = tmp_path / "other.xclbin"
    other.write_text("neither")
    with pytest.raises(BoardError, match="not a valid xclbin"):
        actdma.open_alveo(xclbin=other)
    (tmp_path / "other.sha256").write_text(f"{'0' * 64}  other.xclbin\n")
    with pytest.raises(BoardError, match=r"other\.xclbin is not the file"):
        actdma.open_alveo(xclbin=other)
    card.close()
    assert "pyxrt" not in sys.modules


@pytest.mark.parametrize(
    ("platform", "kernels", "message"),
    [
        ("xilinx_u55c", {k: [{}] for k in KERNELS}, "xclbin is for xilinx_u55c, the card is"),
        (None, {KERNELS[0]: [{}]}, "no compute unit actdma_decompress_maxi_1: not one of ours"),
        (None, {KERNELS[0]: [{}], KERNELS[1]: []}, "no compute unit actdma_decompress_maxi_1"),
    ],
)
def test_xclbins_that_do_not_fit(card, tmp_path, platform, kernels, message):
    card.xclbin = str(tmp_path / "actdma.xclbin")
    write_xclbin(card.xclbin, platform or card.table["platform"], kernels)
    with pytest.raises(BoardError, match=message):
        open_on(card)


def test_one_unit_of_each(card):
    write_xclbin(card.xclbin, card.table["platform"], {k: [{}] for k in KERNELS})
    x = sparse(10_000)
    with open_on(card) as driver:
        assert driver.info()["units"] == {"compressor": 1, "decompressor": 1}
        frame = actdma.compress(x, backend=driver, frame_bytes=8192)
        np.testing.assert_array_equal(actdma.decompress(frame, backend=driver), x)


def test_the_guide_s_first_transfer(capsys):
    """docs/alveo.md: what the script prints is what the guide says, on an emulated card."""
    guide = (ROOT / "docs/alveo.md").read_text()
    script, expected = re.search(r"```py\n(.*?)```\n.*?```text\n(.*?)```", guide, re.S).groups()
    assert "open_alveo(xclbin=" in script
    emulated = re.sub(r"open_alveo\(.*?\)", 'open_alveo("emulated", platform="u50")', script)
    exec(emulated, {})
    assert capsys.readouterr().out == expected


# A program of one's own on the emulated pyxrt.


class Program:
    """What a program does with pyxrt, with buffers of 64 KiB."""

    size = 65536

    def __init__(self, card, kernel=KERNELS[0]):
        self.xrt = card.pyxrt
        self.to = self.xrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE
        self.back = self.xrt.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE
        self.device = self.xrt.device(0)
        uuid = self.device.load_xclbin(card.xclbin)
        self.kernel = self.xrt.kernel(self.device, uuid, f"{kernel}:{{{kernel}_1}}")
        self.source, self.target = (
            self.xrt.bo(self.device, self.size, self.xrt.bo.normal, self.kernel.group_id(n))
            for n in (0, 1)
        )
        self.run = self.xrt.run(self.kernel)

    def write(self, data):
        self.source.map()[: len(data)] = data

    def call(self, packet_bytes, capacity):
        for index, value in enumerate((self.source, self.target, packet_bytes, capacity)):
            self.run.set_arg(index, value)
        self.run.start()
        return self.run.wait(1000)

    def answer(self):
        memory = bytes(self.target.map())
        length, overrun = np.frombuffer(memory[:8], "<u4").tolist()
        return length, overrun, memory[64:]


def request(values):
    head = Descriptor(raw_bytes=values.nbytes, dtype=DType.float32).pack()
    return head + values.tobytes() + bytes(-values.nbytes % 64)


def test_only_sync_moves_data(card):
    """A forgotten sync shows: the kernel reads, and the program sees, what was there before."""
    program = Program(card)
    packet = request(sparse(1000))
    expected = bytes(actdma.compress(sparse(1000)))
    done = program.xrt.ert_cmd_state.ERT_CMD_STATE_COMPLETED

    program.write(packet)
    assert program.call(len(packet), 60_000) == done
    before = program.answer()
    program.target.sync(program.back, program.size, 0)
    length, overrun, memory = program.answer()
    assert before[0] not in (64, len(expected))
    assert (length, overrun) == (64, 0)
    assert Trailer.unpack(memory[:64]).status == Status.MAGIC

    program.source.sync(program.to, len(packet), 0)
    program.call(len(packet), 60_000)
    program.target.sync(program.back, 64 + len(expected), 0)
    assert program.answer()[2][: len(expected)] == expected


def test_overrun_and_lengths(card):
    """The result says how long the answer would have been; nothing is written behind the capacity;
    no length keeps the kernel from ending."""
    program = Program(card)
    packet = request(sparse(1000, 1.0))
    expected = bytes(actdma.compress(sparse(1000, 1.0)))
    program.write(packet)
    program.source.sync(program.to)
    for capacity in (0, 1, 64, 1000, len(expected) - 64):
        program.target.map()[:] = bytes(program.size)
        program.target.sync(program.to)
        program.call(len(packet), capacity)
        program.target.sync(program.back)
        length, overrun, memory = program.answer()
        written = capacity // 64 * 64
        assert (length, overrun) == (len(expected), 1)
        assert memory == expected[:written] + bytes(len(memory) - written)
    for packet_bytes in (0, 1, 63, 64, 65, len(packet) - 1):
        program.call(packet_bytes, 60_000)
        program.target.sync(program.back)
        length, overrun, memory = program.answer()
        assert not overrun
        status = Trailer.unpack(memory[:length]).status
        assert status == Status.LENGTH


def test_what_xrt_refuses(card):
    program = Program(card)
    xrt, device = program.xrt, program.device
    uuid = device.load_xclbin(card.xclbin)
    with pytest.raises(RuntimeError, match="No such kernel 'vadd'"):
        xrt.kernel(device, uuid, "vadd:{vadd_1}")
    with pytest.raises(RuntimeError, match="No compute units matching"):
        xrt.kernel(device, uuid, f"{KERNELS[0]}:{{{KERNELS[0]}_3}}")
    with pytest.raises(RuntimeError, match="No such xclbin"):
        xrt.kernel(device, xrt.xclbin(card.xclbin).get_uuid(), KERNELS[0])
    with pytest.raises(RuntimeError, match="Invalid sync"):
        program.source.sync(program.to, 64, program.size)
    wrong = xrt.bo(device, 64, xrt.bo.normal, program.kernel.group_id(1))
    with pytest.raises(RuntimeError, match=r"Buffer in bank 'HBM\[1\]' cannot be argument 0"):
        program.run.set_arg(0, wrong)
    with pytest.raises(RuntimeError, match=r"unable to allocate \d+ bytes in bank HBM\[0\]"):
        xrt.bo(device, 1 << 30, xrt.bo.normal, 0)


def test_calls_beyond_a_buffer_are_refused(card):
    """In hardware they would read or overwrite somebody else's memory."""
    program = Program(card)
    with pytest.raises(ValueError, match="would write 65537 bytes in a buffer of 65536"):
        program.call(64, program.size - 63)
    with pytest.raises(ValueError, match="would read 65600 bytes in a buffer of 65536"):
        program.call(program.size + 64, 64)

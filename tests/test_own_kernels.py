"""A user's own HLS C++ behind the emulated board's DMAs: compiled, called, refused."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pynq
import pytest

import actdma
from actdma.codecs import reference
from actdma.emulation import Fault, HlsTop, KernelError
from actdma.emulation.dma import INTERNAL_ERROR
from actdma.emulation.kernel import Kernel
from actdma.frame import Codec, Descriptor, DType, frame_bound
from user_kernels import Loopback, exchange

ROOT = Path(__file__).parents[1]
SCALE = ROOT / "tests" / "own_kernels" / "scale.cpp"
CASES = ROOT / "tests" / "own_kernels" / "cases.cpp"


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """A folder of this run for compiled kernels."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACTDMA_CACHE", str(folder))
        yield folder


@pytest.fixture
def case(monkeypatch):
    """The top of `CASES` with that name; one a test."""

    def compiled(name, **options):
        monkeypatch.setenv("CASE", name)
        return HlsTop(CASES, "cases", flags=["-O0"], **options)

    return compiled


def scaled(x, gain=2):
    return np.maximum(np.float32(gain) * x, 0)


@pytest.mark.parametrize("width", [32, 64, 128, 256, 512])
def test_every_width_behind_a_dma(width):
    """Plain HLS idioms, unmodified pynq calls: the numbers are NumPy's, at whole and broken
    lengths."""
    kernel = HlsTop(SCALE, "scale", flags=[f"-DWIDTH={width}"])
    assert kernel.lanes == width // 32
    with actdma.emulation.install(kernels={"axi_dma_0": kernel}) as emulation:
        dma = pynq.Overlay(emulation.bitfile).axi_dma_0
        for size in (1, 15, 16, 17, 4096):
            x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
            answer = exchange(dma, x.view(np.uint8), x.nbytes + 64)
            np.testing.assert_array_equal(answer.view(np.float32), scaled(x))
        assert isinstance(emulation.kernels["axi_dma_0"], Kernel)


def test_several_kernels_on_one_board(case):
    """Each DMA has its own kernel, of its own width; one made in Python may be among them."""
    kernels = {
        "axi_dma_0": HlsTop(SCALE, "scale", flags=["-DWIDTH=64"]),
        "axi_dma_1": HlsTop(SCALE, "scale", flags=["-DGAIN=3.0f"]),
        "dma_loop": Loopback,
        "dma_echo": case("echo"),
    }
    x = np.linspace(-1, 1, 999, dtype=np.float32)
    with actdma.emulation.install(kernels=kernels) as emulation:
        overlay = pynq.Overlay(emulation.bitfile)
        for name, expected in zip(kernels, (scaled(x), scaled(x, 3), x, x), strict=True):
            answer = exchange(getattr(overlay, name), x.view(np.uint8), 4096)
            np.testing.assert_array_equal(answer.view(np.float32), expected)


def test_our_compressor_as_anybodys_top():
    """The synthesisable source of our own engine goes the same way."""
    compressor = HlsTop(
        ROOT / "hls/src/actdma_compress.cpp", "actdma_compress", include=[ROOT / "hls/include"]
    )
    raw = np.arange(2048, dtype=np.uint8)
    descriptor = Descriptor(Codec.ZVC, 1, raw.nbytes, dtype=DType.uint8)
    head = np.frombuffer(descriptor.pack(), np.uint8)
    with actdma.emulation.install(kernels={"axi_dma_compress": compressor}) as emulation:
        dma = pynq.Overlay(emulation.bitfile).axi_dma_compress
        for _ in range(2):
            frame = exchange(dma, np.concatenate([head, raw]), frame_bound(raw.nbytes))
            assert frame.tobytes() == reference.encode_frame(raw, descriptor).tobytes()


@pytest.mark.parametrize(
    ("beat", "dtype"),
    [
        ("hls::axis<float, 0, 0, 0>", np.float32),
        ("ap_axis<32, 2, 5, 6>", np.int32),
        ("sample", np.float32),
    ],
)
def test_kinds_of_beats(beat, dtype):
    x = np.array([1, -2, 1 << 20], dtype)
    (answer,) = HlsTop(CASES, f"negate<{beat}>", flags=["-O0"]).simulate(x)
    np.testing.assert_array_equal(np.frombuffer(answer, dtype), -x)


def test_fixed_point_beats(tmp_path):
    """ap_fixed<32, 8> travels as an integer of 2**-24."""
    (tmp_path / "square.cpp").write_text(
        "#include <ap_axi_sdata.h>\n#include <ap_fixed.h>\n#include <hls_stream.h>\n"
        "typedef hls::axis<ap_fixed<32, 8>, 0, 0, 0> beat;\n"
        "void square(hls::stream<beat>& in, hls::stream<beat>& out)"
        "{ beat b; do { in >> b; b.data = b.data * b.data; out << b; } while (!b.last); }\n"
    )
    square = HlsTop(tmp_path / "square.cpp", "square", flags=["-O0"])
    (answer,) = square.simulate(np.int32([3 << 24, -(1 << 23)]))
    assert list(np.frombuffer(answer, np.int32)) == [9 << 24, 1 << 22]


def test_keep_of_the_last_beat_is_seen_and_sent(case):
    """17 bytes go in with TKEEP 0x1 at the end; a top that keeps 3 of it answers 19 bytes."""
    odd = case("keeps 3 bytes of the last beat, and its keep as data")
    assert odd.simulate(bytes(range(17))) == [bytes(range(16)) + bytes([1, 0, 0])]


def test_packets_in_packets_out(case):
    """A top may answer a packet with none or with several, and be called several times for one."""
    words = np.arange(4, dtype=np.uint32)
    split = case("a packet of each beat, two a call")
    assert split.simulate(words) == [word.tobytes() for word in words]
    sums = case("the sum of packets, when above 9")
    answers = sums.simulate(words, words, words)
    assert [int.from_bytes(answer, "little") for answer in answers] == [12]


def test_static_variables_last_until_a_reset(case):
    count = case("how often it was called")
    word = np.zeros(4, np.uint8)
    with actdma.emulation.install(kernels={"axi_dma_0": count}) as emulation:
        dma = pynq.Overlay(emulation.bitfile).axi_dma_0
        assert [exchange(dma, word, 4)[0] for _ in range(3)] == [1, 2, 3]
        dma = pynq.Overlay(emulation.bitfile).axi_dma_0
        assert exchange(dma, word, 4)[0] == 1


def test_send_waits_for_a_receive(case):
    """As on a board: streams hold a few beats, so a long answer stops the packet until it is
    received; a short one does not."""
    with actdma.emulation.install(kernels={"axi_dma_0": case("echo")}) as emulation:
        dma = pynq.Overlay(emulation.bitfile).axi_dma_0
        for size, waits in ((64, False), (4096, True)):
            send, receive = (pynq.allocate(size, np.uint8) for _ in range(2))
            send[:] = size % 251
            dma.sendchannel.transfer(send)
            assert dma.sendchannel.idle != waits
            assert emulation.waiting("axi_dma_0") == ["cases waits for room on m_axis"]
            dma.recvchannel.transfer(receive)
            dma.sendchannel.wait()
            dma.recvchannel.wait()
            assert (receive == size % 251).all()
        assert emulation.waiting("axi_dma_0") == ["cases waits for data on s_axis"]
        assert emulation.moved("axi_dma_0") == (4096, 4096)


def test_answer_longer_than_the_buffer_is_the_dmas_error(case):
    with actdma.emulation.install(kernels={"axi_dma_0": case("echo")}) as emulation:
        dma = pynq.Overlay(emulation.bitfile).axi_dma_0
        with pytest.raises(RuntimeError, match="DMA channel not started"):  # pynq's words for it
            exchange(dma, np.zeros(128, np.uint8), 64)
        assert emulation.dmas["axi_dma_0"].read(0x34) & INTERNAL_ERROR


def test_faults_strike_own_kernels(case):
    with actdma.emulation.install(kernels={"axi_dma_0": case("echo")}) as emulation:
        dma = pynq.Overlay(emulation.bitfile).axi_dma_0
        emulation.inject(Fault.LONG, "axi_dma_0", "s2mm")
        assert exchange(dma, np.ones(64, np.uint8), 256).size == 128


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("reads too much", "stream 's_axis' is read while it is empty"),
        ("does not read", "the top returns without reading"),
        ("reads an empty fifo", "stream 'fifo' is read while it is empty"),
        (
            "leaves data in a fifo",
            "stream 'fifo' is not empty when the top returns, tokens left: 1",
        ),
        ("leaves data in a static fifo", "stream 'kept' is not empty when the top returns"),
        ("goes on after TLAST", "the packet has been read, and stream 'm_axis' has no TLAST"),
        ("forgets TKEEP", "beat 0 of a packet on stream 'm_axis' has TKEEP 0x0 and no TLAST"),
        ("leaves a gap in TKEEP", "beat 1 of a packet on stream 'm_axis' has TKEEP 0x5 and TLAST"),
        ("throws", "an error of its own"),
        ("writes for ever", "stream 'm_axis' holds more tokens than the longest packet"),
    ],
)
def test_what_would_hang_hardware_is_an_error(case, name, message):
    with pytest.raises(KernelError, match=rf"^cases: {message}.* \(in call 1, beats .*: 2\)$"):
        case(name, time_limit=60).simulate(bytes(8))


def test_a_call_for_the_rest_of_a_packet_is_counted(case):
    """A top that leaves beats is called again, as hardware starts it again."""
    four = case("four beats a call")
    assert four.simulate(bytes(32)) == [bytes(32)]
    with pytest.raises(KernelError, match=r"while it is empty \(in call 2, beats of the packet: 6"):
        four.simulate(bytes(24))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("never returns", r"has not returned after 0\.5 s of processor time: a top must return"),
        ("writes to nowhere", "was ended by SIGSEGV"),
        ("fails an assertion", r"was ended by SIGABRT\n.*Assertion `1 == 2' failed"),
        ("exits", "ended with exit status 3"),
    ],
)
def test_a_top_that_crashes_or_never_returns_ends_alone(case, name, message):
    with pytest.raises(KernelError, match=f"^cases {message}"):
        case(name, time_limit=0.5).simulate(bytes(4))


def test_an_error_is_raised_at_the_transfer_until_a_reset(case):
    """The user's next calls say the same; a new download makes the kernel work again."""
    picky = case("reads on after 13")
    bad, good = np.array([13], np.uint32).view(np.uint8), np.ones(4, np.uint8)
    with actdma.emulation.install(kernels={"axi_dma_0": picky}) as emulation:
        dma = pynq.Overlay(emulation.bitfile).axi_dma_0
        for _ in range(2):
            send = pynq.allocate(4, np.uint8)
            send[:] = bad
            with pytest.raises(KernelError, match="is read while it is empty"):
                dma.sendchannel.transfer(send)
            with pytest.raises(KernelError, match="is read while it is empty"):
                dma.recvchannel.transfer(send)
            dma = pynq.Overlay(emulation.bitfile).axi_dma_0
            assert (exchange(dma, good, 4) == good).all()


def test_the_sanitizers_find_what_writes_beyond_an_array(tmp_path):
    (tmp_path / "wild.cpp").write_text(
        "#include <ap_axi_sdata.h>\n#include <hls_stream.h>\ntypedef ap_axiu<32, 0, 0, 0> beat;\n"
        "void wild(hls::stream<beat>& in, hls::stream<beat>&)"
        "{ volatile int a[2]; a[2 + in.read().data.to_int()] = 1; }\n"
    )
    wild = HlsTop(tmp_path / "wild.cpp", "wild", flags=["-fsanitize=address"])
    with pytest.raises(KernelError, match=r"(?s)wild ended with exit.*stack-buffer-overflow"):
        wild.simulate(bytes(4))


def test_what_a_top_prints_is_shown(case, capsys):
    loud = case("prints")
    for _ in range(2):
        loud.simulate(bytes(4))
    assert capsys.readouterr().out == 2 * "a line and another\n"


@pytest.mark.parametrize(
    ("top", "message"),
    [
        ("narrow", "must have 32, 64, 128, 256 or 512 bit"),
        ("unequal", "both streams of a top must have the same width"),
        ("bare", "a beat must have data and last"),
        ("registers", r"a top must be void top\(hls::stream<beat>& s_axis"),
        ("caess", r"caess does not compile:\n(?s:.)*caess. was not declared"),
    ],
)
def test_what_does_not_compile(top, message):
    with pytest.raises(KernelError, match=message):
        HlsTop(CASES, top)


def test_compile_errors_name_the_users_file_and_line(tmp_path):
    source = tmp_path / "broken.cpp"
    source.write_text("void broken() {\n  nonsense;\n}\n")
    with pytest.raises(
        KernelError, match=r"broken does not compile:\n(?s:.)*broken\.cpp:2:3: error"
    ):
        HlsTop(source, "broken")
    source.write_text("#include <no_such_header.h>\n")
    with pytest.raises(KernelError, match=r"no_such_header\.h: No such file"):
        HlsTop(source, "broken")
    with pytest.raises(FileNotFoundError, match=r"no file .*/nowhere\.cpp with the source of"):
        HlsTop(tmp_path / "nowhere.cpp", "top")


def test_programs_are_cached_by_their_content(tmp_path, cache):
    """A header counts; the same text does not compile again."""
    header, vendor, source = (tmp_path / name for name in ("add.hpp", "vendor.hpp", "add.cpp"))
    vendor.write_text("#include <ap_axi_sdata.h>\n#include <hls_stream.h>\n")
    source.write_text(
        '#include "add.hpp"\ntemplate <int N> void add(port& s_axis, port& m_axis)'
        "{ beat b; do { b = s_axis.read(); b.data += N; m_axis.write(b); } while (!b.last); }\n"
    )
    programs, answers = [], []
    for width in ("32", "64", "32 // again"):
        header.write_text(
            f"#define WIDTH {width}\ntypedef ap_axiu<WIDTH, 0, 0, 0> beat;\n"
            "typedef hls::stream<beat> port;\n"
        )
        compiled = HlsTop([vendor, source], "add<5>", flags=["-O0"])
        programs.append(compiled.program)
        answers += compiled.simulate(bytes(8))
    assert answers == [bytes([5, 0, 0, 0, 5, 0, 0, 0]), bytes([5, *bytes(7)]), answers[0]]
    assert programs[0] == programs[2] != programs[1]
    assert all(program.parent == cache / "kernels" for program in programs)
    assert not [path for path in (cache / "kernels").iterdir() if path.is_dir()]


def test_missing_compiler_and_headers_are_one_sentence(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(FileNotFoundError, match="no compiler 'no-such-compiler': install"):
        HlsTop(SCALE, "scale")
    monkeypatch.delenv("CXX")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install \"actdma\[emulation\]\""):
        HlsTop(SCALE, "scale")


def test_bad_arguments_are_named(case):
    with pytest.raises(ValueError, match="time_limit is 0, allowed are seconds above 0"):
        HlsTop(SCALE, "scale", time_limit=0)
    with pytest.raises(ValueError, match="a packet has at least one byte"):
        case("echo").simulate(b"")
    with pytest.raises(ValueError, match="kernel behind axi_dma_compress has 32-bit streams"):
        actdma.emulation.install(kernels={"axi_dma_compress": case("echo")})
    with pytest.raises(ValueError, match="a DMA is called 'dma 0', allowed are identifiers"):
        actdma.emulation.install(kernels={"dma 0": Loopback})
    design = actdma.overlay.design.load_design()
    with pytest.raises(ValueError, match="behind 'axi_dma_0', the DMAs of the design are axi_dma_"):
        actdma.emulation.install(design=design, kernels={"axi_dma_0": Loopback})


def test_programs_end_with_their_kernels(case):
    """No process is left when the board is gone, nor one that Python was killed beside."""
    before = _children()
    with actdma.emulation.install(kernels={"axi_dma_0": case("echo")}) as emulation:
        dma = pynq.Overlay(emulation.bitfile).axi_dma_0
        exchange(dma, np.zeros(4, np.uint8), 4)
        assert _children() == before + 1
    assert _children() == before
    code = f"""
        import os, signal, sys
        from actdma.emulation import HlsTop
        kernel = HlsTop({str(SCALE)!r}, "scale")()
        kernel.send(memoryview(bytes(16)))
        kernel.run()
        print(kernel._process._child.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    deadline = time.monotonic() + 20
    while Path("/proc", killed.stdout.strip()).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path("/proc", killed.stdout.strip()).exists()


def _children():
    """Processes that this one has started and that have not been waited for."""
    me = str(os.getpid())
    stats = [path.read_text() for path in Path("/proc").glob("[0-9]*/stat")]
    return sum(stat.rpartition(")")[2].split()[1] == me for stat in stats)

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
from kernels import Loopback

ROOT = Path(__file__).parents[1]
SCALE = Path(__file__).parent / "own_kernels" / "scale.cpp"
HEAD = """
#include <ap_axi_sdata.h>
#include <ap_int.h>
#include <hls_stream.h>
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
typedef ap_axiu<32, 0, 0, 0> beat;
typedef hls::stream<beat> port;
"""


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """A folder of this run for compiled kernels."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACTDMA_CACHE", str(folder))
        yield folder


@pytest.fixture
def top(tmp_path):
    """Compiles the body of a top called ``top``; ``before``: text before it."""

    def compiled(body, before="", **options):
        source = tmp_path / "top.cpp"
        text = f"{HEAD}\n{before}\nvoid top(port& s_axis, port& m_axis) {{ {body} }}\n"
        source.write_text(text)
        return HlsTop(source, "top", **options)

    return compiled


ECHO = "beat b; do { b = s_axis.read(); m_axis.write(b); } while (!b.last);"


def transfer(dma, packet, room):
    """A user's transfer with pynq's own calls: the bytes that come back for ``packet``."""
    send = pynq.allocate(packet.size, np.uint8)
    receive = pynq.allocate(room, np.uint8)
    send[:] = packet
    dma.recvchannel.transfer(receive)
    dma.sendchannel.transfer(send)
    dma.sendchannel.wait()
    dma.recvchannel.wait()
    return np.array(receive[: dma.recvchannel.transferred])


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
            answer = transfer(dma, x.view(np.uint8), x.nbytes + 64)
            np.testing.assert_array_equal(answer.view(np.float32), scaled(x))
        assert isinstance(emulation.kernels["axi_dma_0"], Kernel)


def test_several_kernels_on_one_board(top):
    """Each DMA has its own kernel, of its own width; one made in Python may be among them."""
    kernels = {
        "axi_dma_0": HlsTop(SCALE, "scale", flags=["-DWIDTH=64"]),
        "axi_dma_1": HlsTop(SCALE, "scale", flags=["-DGAIN=3.0f"]),
        "dma_loop": Loopback,
        "dma_echo": top(ECHO),
    }
    x = np.linspace(-1, 1, 999, dtype=np.float32)
    with actdma.emulation.install(kernels=kernels) as emulation:
        overlay = pynq.Overlay(emulation.bitfile)
        for name, expected in zip(kernels, (scaled(x), scaled(x, 3), x, x), strict=True):
            answer = transfer(getattr(overlay, name), x.view(np.uint8), 4096)
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
            frame = transfer(dma, np.concatenate([head, raw]), frame_bound(raw.nbytes))
            assert frame.tobytes() == reference.encode_frame(raw, descriptor).tobytes()


@pytest.mark.parametrize(
    "beat",
    [
        "hls::axis<float, 0, 0, 0>",
        "hls::axis<ap_fixed<32, 16>, 0, 0, 0>",
        "ap_axis<32, 2, 5, 6>",
        "struct_of_ones_own",
    ],
)
def test_kinds_of_beats(top, beat):
    before = f"""
    #include <ap_fixed.h>
    struct struct_of_ones_own {{ float data; ap_uint<1> last; }};
    typedef {beat} kind;
    void negate(hls::stream<kind>& in, hls::stream<kind>& out) {{
      kind b;
      do {{ b = in.read(); b.data = -b.data; out.write(b); }} while (!b.last);
    }}
    """
    fixed = "float" not in beat and beat != "struct_of_ones_own"
    x = np.array([1, -2, 1 << 20], np.int32 if fixed else np.float32)
    compiled = top(ECHO, before)
    negate = HlsTop(compiled.sources, "negate")
    np.testing.assert_array_equal(np.frombuffer(negate.simulate(x)[0], x.dtype), -x)


def test_keep_of_the_last_beat_is_seen_and_sent(top):
    """17 bytes go in with TKEEP 0x1 at the end; a top that keeps 3 of it answers 19 bytes."""
    odd = top(
        "beat b; do { b = s_axis.read(); if (b.last) { b.data = b.keep; b.keep = 7; }"
        "m_axis.write(b); } while (!b.last);"
    )
    (answer,) = odd.simulate(bytes(range(17)))
    assert answer == bytes(range(16)) + bytes([1, 0, 0])


def test_packets_in_packets_out(top):
    """A top may answer a packet with none or with several, and be called several times for one."""
    split = top(
        "for (int i = 0; i < 2; i++) { beat b = s_axis.read(); b.last = 1; m_axis.write(b); }"
    )
    words = np.arange(4, dtype=np.uint32)
    assert split.simulate(words) == [word.tobytes() for word in words]
    sums = top(
        "beat b; static ap_uint<32> sum = 0; do { b = s_axis.read(); sum += b.data; }"
        "while (!b.last); if (sum > 9) { b.data = sum; sum = 0; m_axis.write(b); }"
    )
    answers = sums.simulate(words, words, words)
    assert [int.from_bytes(answer, "little") for answer in answers] == [12]


def test_static_variables_last_until_a_reset(top):
    count = top(
        "static int calls = 0; beat b; do b = s_axis.read(); while (!b.last);"
        "b.data = ++calls; m_axis.write(b);"
    )
    word = np.zeros(4, np.uint8)
    with actdma.emulation.install(kernels={"axi_dma_0": count}) as emulation:
        dma = pynq.Overlay(emulation.bitfile).axi_dma_0
        assert [transfer(dma, word, 4)[0] for _ in range(3)] == [1, 2, 3]
        dma = pynq.Overlay(emulation.bitfile).axi_dma_0
        assert transfer(dma, word, 4)[0] == 1


def test_send_waits_for_a_receive(top):
    """As on a board: streams hold a few beats, so a long answer stops the packet until it is
    received; a short one does not."""
    with actdma.emulation.install(kernels={"axi_dma_0": top(ECHO)}) as emulation:
        dma = pynq.Overlay(emulation.bitfile).axi_dma_0
        for size, waits in ((64, False), (4096, True)):
            send, receive = (pynq.allocate(size, np.uint8) for _ in range(2))
            send[:] = size % 251
            dma.sendchannel.transfer(send)
            assert dma.sendchannel.idle != waits
            assert emulation.waiting("axi_dma_0") == ["top waits for room on m_axis"]
            dma.recvchannel.transfer(receive)
            dma.sendchannel.wait()
            dma.recvchannel.wait()
            assert (receive == size % 251).all()
        assert emulation.waiting("axi_dma_0") == ["top waits for data on s_axis"]
        assert emulation.moved("axi_dma_0") == (4096, 4096)


def test_answer_longer_than_the_buffer_is_the_dmas_error(top):
    with actdma.emulation.install(kernels={"axi_dma_0": top(ECHO)}) as emulation:
        dma = pynq.Overlay(emulation.bitfile).axi_dma_0
        with pytest.raises(RuntimeError, match="DMA channel not started"):  # pynq's words for it
            transfer(dma, np.zeros(128, np.uint8), 64)
        assert emulation.dmas["axi_dma_0"].read(0x34) & INTERNAL_ERROR


def test_faults_strike_own_kernels(top):
    with actdma.emulation.install(kernels={"axi_dma_0": top(ECHO)}) as emulation:
        dma = pynq.Overlay(emulation.bitfile).axi_dma_0
        emulation.inject(Fault.LONG, "axi_dma_0", "s2mm")
        assert transfer(dma, np.ones(64, np.uint8), 256).size == 128


ECHO_WITH = "beat b; do {{ b = s_axis.read(); {} m_axis.write(b); }} while (!b.last);".format
BAD = {
    "s_axis.read(); s_axis.read(); s_axis.read();": "stream 's_axis' is read while it is empty",
    "m_axis.write(beat());": "the top returns without reading",
    'hls::stream<int> f("fifo"); f.write(1); f.read(); f.read();'
    + ECHO: "stream 'fifo' is read while it is empty",
    'hls::stream<int, 8> f("fifo"); f.write(1);'
    + ECHO: "stream 'fifo' is not empty when the top returns, tokens left: 1",
    'static hls::stream<int> f("kept"); f.write(1);'
    + ECHO: "stream 'kept' is not empty when the top returns, tokens left: 1",
    ECHO + "b.last = 0; m_axis.write(b);": "the packet has been read, and stream 'm_axis' has no T",
    ECHO_WITH("b.keep = 0;"): "beat 0 of a packet on stream 'm_axis' has TKEEP 0x0 and no TLAST",
    ECHO_WITH("b.keep = b.last ? 5 : -1;"): "beat 1 .* on stream 'm_axis' has TKEEP 0x5 and TLAST",
    'throw std::runtime_error("an error of its own");': "an error of its own",
}
DEADLY = {
    "while (true);": r"has not returned after 0\.5 s of processor time: a top must return",
    "while (true) s_axis.empty();": r"has not returned after 0\.5 s of processor time",
    "*(volatile int*)8 = 1;": "was ended by SIGSEGV",
    "assert(1 == 2);": r"was ended by SIGABRT\n.*Assertion `1 == 2' failed",
    "exit(3);": "ended with exit status 3",
}


def one_of(top, bodies, chosen, monkeypatch, **options):
    """A top of the ``chosen`` body; all are compiled together, once."""
    cases = "".join(f"case {n}: {{ {body} }} break;" for n, body in enumerate(bodies))
    monkeypatch.setenv("CASE", str(list(bodies).index(chosen)))
    return top(f'switch (std::atoi(std::getenv("CASE"))) {{ {cases} }}', **options)


@pytest.mark.parametrize("body", BAD)
def test_what_would_hang_hardware_is_an_error(top, body, monkeypatch):
    bad = one_of(top, BAD, body, monkeypatch)
    message = rf"^top: {BAD[body]}.* \(in call 1, beats of the packet: 2\)$"
    with pytest.raises(KernelError, match=message):
        bad.simulate(bytes(8))


@pytest.mark.parametrize("body", DEADLY)
def test_a_top_that_crashes_or_never_returns_ends_alone(top, body, monkeypatch):
    deadly = one_of(top, DEADLY, body, monkeypatch, time_limit=0.5)
    with pytest.raises(KernelError, match=f"^top {DEADLY[body]}"):
        deadly.simulate(bytes(4))


def test_a_call_for_the_rest_of_a_packet_is_counted(top):
    """A top that leaves beats is called again, as hardware starts it again."""
    four = top("for (int i = 0; i < 4; i++) m_axis.write(s_axis.read());")
    assert four.simulate(bytes(32)) == [bytes(32)]
    with pytest.raises(
        KernelError, match=r"read while it is empty \(in call 2, beats of the packet: 6"
    ):
        four.simulate(bytes(24))


def test_an_error_is_raised_at_the_transfer_until_a_reset(top):
    """The user's next calls say the same; a new download makes the kernel work again."""
    picky = top(
        "beat b; do { b = s_axis.read(); if (b.data == 13) s_axis.read(); m_axis.write(b); }"
        "while (!b.last);"
    )
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
            assert (transfer(dma, good, 4) == good).all()


def test_a_top_that_writes_for_ever_is_an_error(top):
    with pytest.raises(KernelError, match="'m_axis' holds more tokens than the longest packet"):
        top("while (true) m_axis.write(beat());", time_limit=60).simulate(bytes(4))


def test_the_sanitizers_find_what_writes_beyond_an_array(top):
    wild = top("int a[2]; a[2 + s_axis.read().data] = 1;", flags=["-fsanitize=address"])
    with pytest.raises(KernelError, match=r"(?s)top ended with exit.*stack-buffer-overflow"):
        wild.simulate(bytes(4))


def test_what_a_top_prints_is_shown(top, capsys):
    loud = top('std::cout << "a line"; printf(" and another\\n");' + ECHO)
    for _ in range(2):
        loud.simulate(bytes(4))
    assert capsys.readouterr().out == 2 * "a line and another\n"


@pytest.mark.parametrize(
    ("port", "message"),
    [
        ("hls::stream<ap_axiu<48, 0, 0, 0> >", "must have 32, 64, 128, 256 or 512 bit"),
        ("hls::stream<ap_uint<32> >", "a beat must have data and last"),
        ("int", r"a top must be void top\(hls::stream<beat>& s_axis"),
    ],
)
def test_ports_that_a_dma_has_not(top, port, message):
    with pytest.raises(KernelError, match=message):
        HlsTop(top(ECHO, f"void bad({port}&, {port}&) {{}}").sources, "bad")


def test_compile_errors_are_the_compilers(top, tmp_path):
    with pytest.raises(KernelError, match=r"(?s)top does not compile:\n.*top\.cpp:\d+.*nonsense"):
        top("nonsense;")
    with pytest.raises(KernelError, match=r"no_such_header.h: No such file"):
        top("", "#include <no_such_header.h>")
    with pytest.raises(KernelError, match=r"tpo. was not declared"):
        HlsTop(SCALE, "tpo")
    with pytest.raises(FileNotFoundError, match=r"no file .*/nowhere\.cpp with the source of"):
        HlsTop(tmp_path / "nowhere.cpp", "top")


def test_programs_are_cached_by_their_content(tmp_path, cache):
    """A header counts, and a flag; the same text does not compile again."""
    header, source = tmp_path / "gain.hpp", tmp_path / "gain.cpp"
    source.write_text(
        HEAD + '#include "gain.hpp"\nvoid gain(port& s_axis, port& m_axis) { beat b; do {'
        "b = s_axis.read(); b.data *= GAIN; m_axis.write(b); } while (!b.last); }\n"
    )
    programs, answers = [], []
    for text in ("#define GAIN 2", "#define GAIN 3", "#define GAIN 2 // the same"):
        header.write_text(text + "\n")
        compiled = HlsTop(source, "gain")
        programs.append(compiled.program)
        answers += compiled.simulate(np.uint32(7).tobytes())
    assert [answer[0] for answer in answers] == [14, 21, 14]
    assert programs[0] == programs[2] != programs[1]
    assert all(program.parent == cache / "kernels" for program in programs)
    assert HlsTop(source, "gain", flags=["-O1"]).program not in programs
    assert not [path for path in (cache / "kernels").iterdir() if path.is_dir()]


def test_sources_of_several_files_and_templates(tmp_path):
    (tmp_path / "types.hpp").write_text("#pragma once\n" + HEAD)
    (tmp_path / "step.cpp").write_text('#include "types.hpp"\nbeat step(beat b, int by);\n')
    (tmp_path / "more.cpp").write_text(
        "beat step(beat b, int by) { b.data += by; return b; }\n"
        "template <int N> void add(port& in, port& out)"
        "{ beat b; do { b = in.read(); out.write(step(b, N)); } while (!b.last); }\n"
    )
    add = HlsTop([tmp_path / "step.cpp", tmp_path / "more.cpp"], "add<5>")
    assert add.simulate(bytes(4)) == [bytes([5, 0, 0, 0])]


def test_missing_compiler_and_headers_are_one_sentence(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(FileNotFoundError, match="no compiler 'no-such-compiler': install"):
        HlsTop(SCALE, "scale")
    monkeypatch.delenv("CXX")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install \"actdma\[emulation\]\""):
        HlsTop(SCALE, "scale")


def test_bad_arguments_are_named(top):
    with pytest.raises(ValueError, match="time_limit is 0, allowed are seconds above 0"):
        HlsTop(SCALE, "scale", time_limit=0)
    with pytest.raises(ValueError, match="a packet has at least one byte"):
        top(ECHO).simulate(b"")
    with pytest.raises(ValueError, match="kernel behind axi_dma_compress has 32-bit streams"):
        actdma.emulation.install(kernels={"axi_dma_compress": top(ECHO)})
    with pytest.raises(ValueError, match="a DMA is called 'dma 0', allowed are identifiers"):
        actdma.emulation.install(kernels={"dma 0": Loopback})
    design = actdma.overlay.design.load_design()
    with pytest.raises(ValueError, match="behind 'axi_dma_0', the DMAs of the design are axi_dma_"):
        actdma.emulation.install(design=design, kernels={"axi_dma_0": Loopback})


def test_programs_end_with_their_kernels(top):
    """No process is left when the board is gone, nor one that Python was killed beside."""
    before = _children()
    with actdma.emulation.install(kernels={"axi_dma_0": top(ECHO)}) as emulation:
        dma = pynq.Overlay(emulation.bitfile).axi_dma_0
        transfer(dma, np.zeros(4, np.uint8), 4)
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

"""The emulated board below pynq: a user's own pynq code, registers, memory, reset wiring,
clocks."""

from __future__ import annotations

import dataclasses
import gc
import os
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pynq
import pytest
from pynq.pl_server.device import Device

import actdma
from actdma.codecs import reference
from actdma.emulation.dma import COMPLETE_IRQ, HALTED, IDLE, Dma
from actdma.emulation.faults import Fault, Faults
from actdma.emulation.kernel import Kernel
from actdma.emulation.memory import Pool
from actdma.frame import Codec, Descriptor, DType, Engine, Status, Trailer, frame_bound
from actdma.overlay.design import load_boards, load_design
from user_kernels import Loopback, ReferenceKernel, exchange, reference_kernels

DMA = "axi_dma_compress"


def descriptor_of(data):
    return Descriptor(Codec.ZVC, 4, data.nbytes, dtype=DType.float32)


@pytest.fixture
def loopback():
    """An emulated board with loopbacks behind the DMAs."""
    kernels = {DMA: Loopback, "axi_dma_decompress": Loopback}
    with actdma.emulation.install(kernels=kernels) as emulation:
        yield emulation


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_users_own_pynq_code(lanes):
    """Unmodified pynq calls send a hand-made packet through both engines."""
    data = np.linspace(-2, 2, 3000, dtype=np.float32)
    data[::3] = 0
    with actdma.emulation.install(lanes=lanes) as emulation:
        overlay = pynq.Overlay(emulation.bitfile)
        head = np.frombuffer(descriptor_of(data).pack(), np.uint8)
        raw = np.zeros(12_032, np.uint8)
        raw[:12_000] = data.view(np.uint8)
        frame = exchange(overlay.axi_dma_compress, np.concatenate([head, raw]), 13_000)
        assert (
            frame.tobytes() == reference.encode_frame(raw[:12_000], descriptor_of(data)).tobytes()
        )
        answer = exchange(overlay.axi_dma_decompress, frame, 13_000)
        np.testing.assert_array_equal(answer[:12_000].view(np.float32), data)
        assert Trailer.unpack(answer).status == Status.GOOD
        assert emulation.cycles(DMA) > 0


def test_send_before_receive(loopback):
    """Either channel may be armed first; a send that finds no receive waits in the fabric."""
    dma = pynq.Overlay(loopback.bitfile).axi_dma_compress
    send, receive = (pynq.allocate((8192,), np.uint8) for _ in range(2))
    send[:] = np.arange(8192) % 251
    dma.sendchannel.transfer(send)
    assert not dma.sendchannel.idle
    dma.recvchannel.transfer(receive)
    dma.recvchannel.wait()
    np.testing.assert_array_equal(receive, send)


def test_kernels_follow_the_protocol():
    assert isinstance(Loopback(), Kernel)
    assert isinstance(ReferenceKernel(Engine.COMPRESSOR), Kernel)


def test_active_device_comes_back():
    before = object()
    Device.active_device = before
    try:
        with actdma.emulation.install(kernels=reference_kernels()) as emulation:
            assert Device.active_device is emulation.device
            folder = Path(emulation.bitfile).parent
        assert Device.active_device is before
        assert not folder.exists()
    finally:
        del Device._active_device


@pytest.mark.parametrize("mhz", [100, 250, 300])
def test_pl_clock(mhz):
    """pynq sets the PL clock of the design, of every device anew."""
    design = load_design(clock_mhz=mhz)
    with actdma.emulation.install(design=design, kernels=reference_kernels()) as emulation:
        pynq.Overlay(emulation.bitfile)
        assert pynq.Clocks.fclk0_mhz == pytest.approx(mhz, rel=1e-3)


def test_metadata_reaches_pynq(loopback):
    overlay = pynq.Overlay(loopback.bitfile)
    assert overlay.axi_dma_compress.buffer_max_size == (1 << 26) - 1
    assert overlay.ip_dict[DMA]["phys_addr"] == 0xA000_0000
    assert overlay.ip_dict["axi_dma_decompress"]["addr_range"] == 0x1_0000
    assert overlay.ip_dict["ps"]["type"] == "xilinx.com:ip:zynq_ultra_ps_e:3.5"


def test_unmapped_register(loopback):
    with pytest.raises(RuntimeError, match="bus error: no register at 0x1000"):
        pynq.MMIO(0x1000, 4, device=loopback.device).read(0)


def test_status_bits(loopback):
    """Halted until run, busy after a start, idle and interrupt after the end; the latter is
    cleared."""
    registers = loopback.dmas[DMA]
    memory = loopback.memory
    assert registers.read(0x34) == HALTED
    registers.write(0x58, 64)
    assert registers.read(0x58) == 0
    for base in (0x00, 0x30):
        registers.write(base, 0x1)
        assert registers.read(base + 0x04) == 0
        registers.write(base + 0x18, memory.base)
        registers.write(base + 0x28, 64)
    assert registers.read(0x34) == IDLE | COMPLETE_IRQ
    registers.write(0x34, COMPLETE_IRQ)
    assert registers.read(0x34) == IDLE
    registers.write(0x30, 0x4)
    assert (registers.read(0x30), registers.read(0x34)) == (0x0001_0002, HALTED)
    assert registers.read(0x04) == HALTED


def test_error_is_sticky_until_reset(loopback):
    registers = loopback.dmas[DMA]
    registers.write(0x00, 0x1)
    registers.write(0x18, 0x10)
    registers.write(0x28, 64)
    assert registers.read(0x04) & (HALTED | 0x40) == HALTED | 0x40
    registers.write(0x00, 0x1)
    assert registers.read(0x04) & HALTED
    registers.write(0x00, 0x4)
    registers.write(0x00, 0x1)
    assert registers.read(0x04) == 0


def test_channel_stopped_in_mid_transfer(loopback):
    """pynq's stop ends; what was armed stays so until a reset."""
    dma = pynq.Overlay(loopback.bitfile).axi_dma_compress
    buffer = pynq.allocate((8192,), np.uint8)
    dma.sendchannel.transfer(buffer)
    dma.sendchannel.stop()
    assert not dma.sendchannel.running


def abort_then_send(design):
    """Abort a packet in mid-frame by resetting the DMA, send a good one: the good one's answer."""
    good = np.arange(64, dtype=np.uint8)
    kernels = {DMA: Loopback, "axi_dma_decompress": Loopback}
    with actdma.emulation.install(kernels=kernels, design=design) as emulation:
        dma = pynq.Overlay(emulation.bitfile).axi_dma_compress
        dma.sendchannel.transfer(pynq.allocate((8192,), np.uint8))
        assert emulation.kernels[DMA].sending
        for base in (0x00, 0x30):
            dma.mmio.write(base, 0x4)
        dma.sendchannel.start()
        dma.recvchannel.start()
        return exchange(dma, good, 8192), good


def test_reset_reaches_the_engine_by_its_wires():
    """Either reset output of the DMA is wired to the engine's reset, so an aborted frame is
    gone."""
    answer, good = abort_then_send(load_design())
    np.testing.assert_array_equal(answer, good)


def test_without_the_wires_an_aborted_frame_poisons_the_next():
    design = load_design()
    nets = {name: pins for name, pins in design.nets.items() if name != "compress_engine_reset"}
    answer, good = abort_then_send(dataclasses.replace(design, nets=nets))
    assert answer.size == 4096 + good.size


def test_real_engine_is_reset_in_mid_frame():
    """The same with our compressor, cut off in the middle of a 1 MiB frame."""
    data = np.arange(1 << 18, dtype=np.float32)
    head = np.frombuffer(descriptor_of(data).pack(), np.uint8)
    packet = np.concatenate([head, data.view(np.uint8)])
    with actdma.emulation.install(timed=False) as emulation:
        dma = pynq.Overlay(emulation.bitfile).axi_dma_compress
        cut_off = pynq.allocate(packet.shape, np.uint8)
        cut_off[:] = packet
        dma.sendchannel.transfer(cut_off)
        assert 0 < emulation.kernels[DMA].sent < packet.size
        dma.mmio.write(0x30, 0x4)
        dma.sendchannel.start()
        dma.recvchannel.start()
        frame = exchange(dma, packet, frame_bound(data.nbytes))
    expected = reference.encode_frame(data.view(np.uint8), descriptor_of(data))
    assert frame.tobytes() == expected.tobytes()


def test_reset_sources_of_the_design():
    design = load_design()
    assert design.reset_sources("engine_compress") == {
        "axi_dma_compress/mm2s_prmry_reset_out_n",
        "axi_dma_compress/s2mm_prmry_reset_out_n",
    }
    assert design.streams_to("axi_dma_decompress") == "engine_decompress"


@pytest.mark.parametrize("board", load_boards())
def test_design_fits_every_board(board):
    """Every name is filled in, every pin belongs to a cell, nothing is driven twice."""
    design = load_design(board)
    ends = [end for pairs in design.interfaces.values() for pair in pairs for end in pair]
    pins = [pin for net in design.nets.values() for pin in net]
    for end in ends + pins:
        assert end.partition("/")[0] in design.cells
        assert "$" not in end
    assert len(set(ends)) == len(ends)
    assert len(set(pins)) == len(pins)


def test_unknown_board():
    with pytest.raises(ValueError, match="unknown board 'zc999'; known are emulated, zcu104"):
        load_design("zc999")


def test_pool_is_first_fit():
    pool = Pool(0x1000_0000, 5 * 4096)
    first, second, third = (pool.allocate(n) for n in (1, 4097, 4096))
    assert (first, second, third) == (0x1000_0000, 0x1000_1000, 0x1000_3000)
    pool.return_pointer(second)
    assert pool.allocate(4096) == second
    assert pool.allocate(4096) == second + 4096
    with pytest.raises(MemoryError, match="8192 bytes asked, the largest free piece has 4096"):
        pool.allocate(8192)
    pool.return_pointer(first)
    pool.return_pointer(first)
    assert (pool.live, pool.used) == (3, 3 * 4096)


def test_buffers_are_freed_with_their_last_reference(loopback):
    buffer = pynq.allocate((100, 3), np.float32)
    part = buffer[10:]
    assert part.physical_address == buffer.physical_address + 120
    del buffer
    gc.collect()
    assert loopback.memory.live == 1
    del part
    gc.collect()
    assert loopback.memory.live == 0
    with pynq.allocate((8,), np.uint8):
        assert loopback.memory.live == 1
    assert loopback.memory.live == 0


def test_write_back_cache(loopback):
    """A DMA sees what was flushed, the processor what was written since it invalidated."""
    memory = loopback.memory
    buffer = pynq.allocate((128,), np.uint8)
    seen = np.frombuffer(memory.dma_view(buffer.physical_address, 128), np.uint8)
    buffer[:] = 1
    assert not seen.any()
    buffer[64:65].flush()
    assert list(np.flatnonzero(seen)) == list(range(64, 128))
    memory.dma_view(buffer.physical_address, 64)[:] = bytes([2]) * 64
    assert (buffer[:64] == 1).all()
    buffer[:64].invalidate()
    assert (buffer[:64] == 2).all()


def test_coherent_memory():
    """Without a cache model the processor and the DMA see one memory."""
    with actdma.emulation.install(kernels=reference_kernels(), cache=False) as emulation:
        buffer = pynq.allocate((64,), np.uint8)
        buffer[:] = 3
        assert bytes(emulation.memory.dma_view(buffer.physical_address, 64)) == bytes([3]) * 64


def test_kernels_see_odd_lengths_as_they_are():
    pool = Pool(0, 8192, cache=False)
    kernel = Loopback()
    parameters = load_design().cells[DMA]["parameters"]
    dma = Dma(DMA, parameters, pool, kernel, lambda outputs: kernel.reset(), Faults())
    pool.dma_view(0, 32)[:] = bytes([5]) * 32
    dma.write(0x00, 1)
    dma.write(0x28, 17)
    assert kernel.answers == [bytes([5]) * 17]


def test_missing_handoff(loopback):
    Path(loopback.bitfile).with_suffix(".hwh").unlink()
    with pytest.raises(FileNotFoundError, match=r"actdma\.hwh is missing"):
        pynq.Overlay(loopback.bitfile)


def test_real_engine_without_the_wires_is_poisoned():
    """Without its reset wires our compressor glues the frame cut off to the next one."""
    design = load_design()
    nets = {name: pins for name, pins in design.nets.items() if name != "compress_engine_reset"}
    data = np.arange(1 << 18, dtype=np.float32)
    head = np.frombuffer(descriptor_of(data).pack(), np.uint8)
    packet = np.concatenate([head, data.view(np.uint8)])
    design = dataclasses.replace(design, nets=nets)
    with actdma.emulation.install(timed=False, design=design) as emulation:
        dma = pynq.Overlay(emulation.bitfile).axi_dma_compress
        send = pynq.allocate(packet.shape, np.uint8)
        send[:] = packet
        dma.sendchannel.transfer(send)
        assert 0 < emulation.kernels[DMA].sent < packet.size
        dma.mmio.write(0x30, 0x4)
        dma.sendchannel.start()
        dma.recvchannel.start()
        frame = exchange(dma, packet, frame_bound(data.nbytes))
    assert Trailer.unpack(frame).status == Status.LENGTH


def test_threads_take_turns_on_the_register_bus():
    """One thread sends while another receives, as pynq code may; a transfer runs in one of them."""
    data = np.arange(16384, dtype=np.uint32).view(np.uint8)
    with actdma.emulation.install() as emu:
        dma = pynq.Overlay(emu.bitfile).axi_dma_compress
        packet = pynq.allocate((64 + data.size,), np.uint8)
        packet[:64] = np.frombuffer(descriptor_of(data).pack(), np.uint8)
        packet[64:] = data
        room = pynq.allocate((frame_bound(data.size),), np.uint8)
        frame = reference.encode_frame(data, descriptor_of(data))
        good = []

        def send():
            for _ in range(50):
                dma.sendchannel.transfer(packet)
                dma.sendchannel.wait()

        def receive():
            for _ in range(50):
                dma.recvchannel.transfer(room)
                dma.recvchannel.wait()
                received = dma.recvchannel.transferred
                good.append(bytes(room[:received]) == frame.tobytes())

        packet.flush()
        threads = [threading.Thread(target=f, daemon=True) for f in (receive, send)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert good == [True] * 50


def test_memory_is_released_at_close():
    """All of it at once, or with the last buffer; freed buffers and views of them do not pin it."""
    emu = actdma.emulation.install(kernels=reference_kernels(), activate=False)
    freed, kept = (emu.device.allocate((64,), np.uint8) for _ in range(2))
    memories = [weakref.ref(emu.memory.dram.base), weakref.ref(emu.memory.cached.base)]
    kept[:] = 7
    freed.freebuffer()
    del freed
    emu.close()
    assert [memory() is None for memory in memories] == [True, False]
    kept.flush()
    kept.invalidate()
    assert (kept == 7).all()
    with pytest.raises(MemoryError, match="closed"):
        emu.device.allocate((64,), np.uint8)
    del kept
    assert memories[1]() is None


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_leaves_the_files_and_the_device_alone():
    with actdma.emulation.install(kernels=reference_kernels(), activate=False) as emu:

        def refused(use):
            with pytest.raises(RuntimeError, match="in another process"):
                use()

        child = os.fork()
        if not child:
            try:
                refused(lambda: emu.device.allocate((64,), np.uint8))
                refused(lambda: emu.device.read_registers(0xA000_0000, 4))
                refused(lambda: emu.device.write_registers(0xA000_0000, bytes(4)))
                emu.close()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert Path(emu.bitfile).is_file()
        emu.device.allocate((64,), np.uint8)


def test_a_child_that_exits_normally_leaves_the_files():
    code = """
import os, pathlib, sys
import actdma
emu = actdma.emulation.install()
if os.fork() == 0:
    sys.exit(0)
assert os.wait()[1] == 0
assert pathlib.Path(emu.bitfile).is_file()
print(emu.bitfile)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not Path(done.stdout.strip()).exists()


def test_a_packet_with_a_partial_last_beat_is_refused_by_the_engine():
    """What lies on the lanes that TKEEP leaves out is undefined: it must not count as padding."""
    data = np.ones(15, np.float32)
    head = np.frombuffer(descriptor_of(data).pack(), np.uint8)
    packet = np.concatenate([head, data.view(np.uint8)])
    with actdma.emulation.install(timed=False) as emulation:
        dma = pynq.Overlay(emulation.bitfile).axi_dma_compress
        answer = exchange(dma, packet, frame_bound(data.nbytes))
    assert packet.size == 124
    assert Trailer.unpack(answer).status == Status.LENGTH


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Fault.SKIPPED_FLUSH,), "SKIPPED_FLUSH cannot happen here; allowed are NO_TLAST, "),
        ((Fault.RUN_ERROR,), "RUN_ERROR cannot happen here"),
        ((Fault.SHORT, "dma"), "unit of SHORT is 'dma', allowed is one of axi_dma_comp"),
        ((Fault.EXHAUSTED, DMA), "unit of EXHAUSTED is .*, allowed is None"),
        ((Fault.SHORT, DMA, "up"), "channel of SHORT is 'up', allowed is one of mm2s"),
        ((Fault.RESET_HANGS, DMA, "mm2s"), "channel of RESET_HANGS is 'mm2s', allowed is None"),
    ],
)
def test_faults_that_cannot_happen(arguments, message):
    with (
        actdma.emulation.install(cache=False, activate=False) as emulation,
        pytest.raises(ValueError, match=message),
    ):
        emulation.inject(*arguments)


@pytest.mark.parametrize("numbers", [{"after": -1}, {"times": 0}, {"probability": 0.0}])
def test_numbers_that_no_fault_has(numbers):
    with pytest.raises(ValueError, match=r"after is .*; allowed are 0 and more"):
        Faults().inject(Fault.SHORT, **numbers)

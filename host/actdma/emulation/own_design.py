"""The block design of an emulated board with a user's kernels: one AXI DMA for each."""

from __future__ import annotations

from collections.abc import Mapping

from ..overlay.design import Design, load_design


def own_design(lanes: Mapping[str, int]) -> Design:
    """DMAs by name, each with a kernel of so many 32-bit ``lanes`` behind it.

    Processor and DMAs are those of our design; all DMAs share one memory port, and a DMA's reset
    outputs reset its kernel. There are no interrupts. ValueError for a name that `pynq.Overlay`
    could not have as an attribute.
    """
    for name in lanes:
        if not name.isidentifier():
            raise ValueError(f"a DMA is called {name!r}, allowed are identifiers such as axi_dma_0")
    ours = load_design()
    board, axi = ours.board, "xilinx.com:ip:smartconnect:1.0"
    cells = {
        "ps": ours.cells["ps"],
        "reset": ours.cells["reset"],
        "control": {"vlnv": axi, "parameters": {"NUM_SI": 1, "NUM_MI": len(lanes)}},
        "memory": {"vlnv": axi, "parameters": {"NUM_SI": 2 * len(lanes), "NUM_MI": 1}},
    }
    aximm = [
        [f"ps/{board['control_port']}", "control/S00_AXI"],
        ["memory/M00_AXI", f"ps/{board['memory_ports'][0]}"],
    ]
    axis, addresses = [], {}
    nets = {
        "clock": [
            *(f"ps/{board[pin]}" for pin in ("clock_pin", "control_clock")),
            *(f"ps/{pin}" for pin in board["memory_clocks"]),
            *("reset/slowest_sync_clk", "control/aclk", "memory/aclk"),
        ],
        "power_on_reset": [f"ps/{board['reset_pin']}", "reset/ext_reset_in"],
        "system_reset": ["reset/peripheral_aresetn", "control/aresetn", "memory/aresetn"],
    }
    for number, (dma, width) in enumerate(lanes.items()):
        kernel, gate = f"{dma}_kernel", f"{dma}_kernel_reset"
        cells[dma] = load_design(stream_bits=32 * width).cells[ours.dmas[0]]
        cells[kernel] = {"vlnv": f"xilinx.com:hls:{kernel}:1.0", "parameters": {}}
        cells[gate] = ours.cells["engine_reset_compress"]
        aximm += [
            [f"control/M{number:02}_AXI", f"{dma}/S_AXI_LITE"],
            [f"{dma}/M_AXI_MM2S", f"memory/S{2 * number:02}_AXI"],
            [f"{dma}/M_AXI_S2MM", f"memory/S{2 * number + 1:02}_AXI"],
        ]
        axis += [
            [f"{dma}/M_AXIS_MM2S", f"{kernel}/s_axis"],
            [f"{kernel}/m_axis", f"{dma}/S_AXIS_S2MM"],
        ]
        clocks = ("s_axi_lite_aclk", "m_axi_mm2s_aclk", "m_axi_s2mm_aclk")
        nets["clock"] += [*(f"{dma}/{pin}" for pin in clocks), f"{kernel}/ap_clk"]
        nets["system_reset"].append(f"{dma}/axi_resetn")
        nets[f"{dma}_mm2s_reset"] = [f"{dma}/mm2s_prmry_reset_out_n", f"{gate}/Op1"]
        nets[f"{dma}_s2mm_reset"] = [f"{dma}/s2mm_prmry_reset_out_n", f"{gate}/Op2"]
        nets[f"{kernel}_reset"] = [f"{gate}/Res", f"{kernel}/ap_rst_n"]
        window = ours.addresses[ours.dmas[0]]
        addresses[dma] = {**window, "offset": number * window["range"]}
    interfaces = {"aximm": aximm, "axis": axis}
    return Design("own", board, cells, interfaces, nets, addresses, memory={})

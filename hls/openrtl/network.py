"""An engine in Verilog: its processes between its streams, both found in its dataflow region."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .ir import HLS, Argument, Constant, Function, Global, Instruction, Untranslatable, program
from .verilog import Module, Port, translate

ENGINES = ("compress", "decompress")
SRL_DEPTH = 32
"""FIFOs up to this depth lie in LUTs, deeper ones in block RAM (overlay/flow/hls.py)."""


@dataclass
class Channel:
    """A stream; ``kept``: the bits of its tokens that its FIFO has to hold."""

    number: int
    name: str
    bytes: int
    depth: int
    kept: int = 0
    writer: str = ""
    reader: str = ""

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The kept bits as (high, low), from the highest."""
        found = []
        bits = f"{self.kept:0{8 * self.bytes}b}"
        for run in re.finditer("1+", bits):
            found.append((len(bits) - 1 - run.start(), len(bits) - run.end()))
        return found

    @property
    def width(self) -> int:
        """Bits that the FIFO holds per token."""
        return max(1, self.kept.bit_count())


@dataclass
class Node:
    """A process: its module, and the channel of each of the module's ports."""

    name: str
    module: Module
    channels: dict[int, Channel] = field(default_factory=dict)


@dataclass
class Engine:
    """A network; ``source`` and ``sink`` are the streams at its ports."""

    name: str
    lanes: int
    nodes: list[Node]
    channels: list[Channel]
    source: Channel
    sink: Channel

    def verilog(self) -> str:
        """The whole design but for fifo.v."""
        modules = {node.module.name: node.module.text for node in self.nodes}
        return "\n".join([*modules.values(), _top(self)])

    def waits(self) -> list[str]:
        """What each bit of the top's ``lacks`` says."""
        return [
            f"{node.name} waits for {'room' if port.is_output else 'data'} on "
            f"{node.channels[port.index].name}"
            for node in self.nodes
            for port in node.module.ports
        ]


def engine(
    kind: str, lanes: int, macros: dict[str, int] | None = None, source: Path | None = None
) -> Engine:
    """``kind`` (one of ENGINES), ``lanes`` 32-bit words wide, with the codecs of build flags.

    ValueError for another kind; `Untranslatable` where the C++ is none that hardware is made of.
    """
    if kind not in ENGINES:
        raise ValueError(f"{kind!r} is no engine: there are {', '.join(ENGINES)}")
    functions, texts = program(
        source or HLS / "openrtl/engines.cpp", {"ACTDMA_LANES": lanes, **(macros or {})}
    )
    bytes_of_port = 4 * lanes + 4
    source_channel = Channel(-1, "AXI input", bytes_of_port, SRL_DEPTH)
    sink = Channel(-2, "AXI output", bytes_of_port, SRL_DEPTH)
    builder = _Builder(kind, functions, texts)
    builder.region(functions[kind], {0: source_channel, 1: sink})
    for channel in (*builder.channels, source_channel, sink):
        _keep(channel, builder.nodes)
    return Engine(kind, lanes, builder.nodes, builder.channels, source_channel, sink)


class _Builder:
    def __init__(self, kind: str, functions: dict[str, Function], texts: dict[str, str]) -> None:
        self.kind = kind
        self.functions = functions
        self.texts = texts
        self.nodes: list[Node] = []
        self.channels: list[Channel] = []
        self.modules: dict[str, Module] = {}

    def region(self, function: Function, arguments: dict[int, Channel]) -> None:
        """The streams and processes of a dataflow region, those of its regions included."""
        streams: dict[Instruction, Channel] = {}

        def channel(value: object, call: Instruction) -> Channel:
            if isinstance(value, Argument):
                return arguments[value.index]
            if isinstance(value, Instruction) and value in streams:
                return streams[value]
            raise call.refuse("a process' argument that is no stream of this region")

        for call in _calls(function):
            if call.callee == "actdma_stream":
                made = self._channel(call)
                streams[call.operands[0]] = made
                self.channels.append(made)
                continue
            if call.callee not in self.functions:
                raise call.refuse("a region calls processes and nothing else")
            given = {i: channel(o, call) for i, o in enumerate(call.operands[:-1])}
            callee = self.functions[call.callee]
            if any(inner.callee == "actdma_stream" for inner in _calls(callee)):
                self.region(callee, given)
            else:
                self.nodes.append(self._node(callee, given))

    def _channel(self, call: Instruction) -> Channel:
        _, name, size, depth = call.operands[:4]
        if not (isinstance(size, Constant) and isinstance(depth, Constant)):
            raise call.refuse("a stream's size is not constant")
        text = self.texts.get(name.name, "") if isinstance(name, Global) else ""
        return Channel(len(self.channels), text, size.value or 0, depth.value or 0)

    def _node(self, function: Function, given: dict[int, Channel]) -> Node:
        if function.name not in self.modules:
            count = len(self.modules)
            module = translate(function, f"{self.kind}_{count}_{_plain(function.name)}")
            self.modules[function.name] = module
        module = self.modules[function.name]
        name = _plain(function.name)
        same = sum(node.name.split("#")[0] == name for node in self.nodes)
        node = Node(f"{name}#{same + 1}" if same else name, module, given)
        for port in module.ports:
            side = "writer" if port.is_output else "reader"
            channel = given[port.index]
            if getattr(channel, side):
                raise Untranslatable(f"the stream {channel.name} has two {side}s")
            setattr(channel, side, node.name)
        return node


def _calls(function: Function) -> Iterator[Instruction]:
    """What a function calls, compilers' own business left out."""
    for block in function.blocks:
        for instruction in block.instructions:
            if instruction.callee and not instruction.callee.startswith("llvm."):
                yield instruction


def _plain(mangled: str) -> str:
    """A function's own name within a mangled one of namespace actdma."""
    found = re.match(r"_ZN6actdma(\d+)(.*)", mangled)
    return found[2][: int(found[1])] if found else mangled


def _keep(channel: Channel, nodes: list[Node]) -> None:
    """Leave out of a FIFO what is always 0, and what nobody looks at."""
    kept = (1 << 8 * channel.bytes) - 1
    for node in nodes:
        for port in node.module.ports:
            if node.channels[port.index] is channel:
                if port.is_output:
                    kept &= ~node.module.zero[port.index]
                else:
                    kept &= node.module.read[port.index]
    channel.kept = kept


def _top(engine: Engine) -> str:
    """The network with AXI4-Stream ports. A token there is an AxiBeat (axis.hpp): the words, then a
    byte each for `keep` and `last`."""
    bits = 32 * engine.lanes
    lines = [
        f"module actdma_{engine.name} (",
        "  input wire clk, input wire rst,",
        f"  input wire [{bits - 1}:0] s_axis_tdata, input wire [{bits // 8 - 1}:0] s_axis_tkeep,",
        "  input wire s_axis_tlast, input wire s_axis_tvalid, output wire s_axis_tready,",
        f"  output wire [{bits - 1}:0] m_axis_tdata, output wire [{bits // 8 - 1}:0] m_axis_tkeep,",
        "  output wire m_axis_tlast, output wire m_axis_tvalid, input wire m_axis_tready,",
        f"  output wire active, output wire [{len(engine.waits()) - 1}:0] lacks",
        ");",
    ]
    for channel in (engine.source, *engine.channels, engine.sink):
        lines += _fifo(channel)
    lines += [
        f"  assign {_wire(engine.source)}_in = {{23'b0, s_axis_tlast, 7'b0, &s_axis_tkeep, "
        "s_axis_tdata};",
        f"  assign {_wire(engine.source)}_in_valid = s_axis_tvalid;",
        f"  assign s_axis_tready = {_wire(engine.source)}_in_ready;",
        f"  assign m_axis_tdata = {_wire(engine.sink)}_out[{bits - 1}:0];",
        f"  assign m_axis_tkeep = {{{bits // 8}{{{_wire(engine.sink)}_out[{bits}]}}}};",
        f"  assign m_axis_tlast = {_wire(engine.sink)}_out[{bits + 8}];",
        f"  assign m_axis_tvalid = {_wire(engine.sink)}_out_valid;",
        f"  assign {_wire(engine.sink)}_out_ready = m_axis_tready;",
    ]
    lacks: list[str] = []
    for number, node in enumerate(engine.nodes):
        lines += _instance(number, node)
        lacks.insert(0, f"n{number}_lacks")
    fires = " | ".join(f"n{number}_fire" for number in range(len(engine.nodes)))
    lines += [f"  assign active = {fires};", f"  assign lacks = {{{', '.join(lacks)}}};"]
    return "\n".join([*lines, "endmodule", ""])


def _wire(channel: Channel) -> str:
    return f"c{channel.number}" if channel.number >= 0 else f"port{-channel.number}"


def _fifo(channel: Channel) -> list[str]:
    wire, high = _wire(channel), 8 * channel.bytes - 1
    pieces = [f"{wire}_in[{top}:{low}]" for top, low in channel.ranges] or ["1'b0"]
    spread: list[str] = []
    at, above = channel.width, 8 * channel.bytes
    for top, low in channel.ranges:
        if above - 1 > top:
            spread.append(f"{above - 1 - top}'b0")
        size = top - low + 1
        spread.append(f"{wire}_held[{at - 1}:{at - size}]")
        at, above = at - size, low
    if above:
        spread.append(f"{above}'b0")
    return [
        f"  // {channel.name}: {channel.writer} to {channel.reader}",
        f"  wire [{high}:0] {wire}_in, {wire}_out;",
        f"  wire {wire}_in_valid, {wire}_in_ready, {wire}_out_valid, {wire}_out_ready;",
        f"  wire [{channel.width - 1}:0] {wire}_held;",
        f"  assign {wire}_out = {{{', '.join(spread)}}};",
        f"  actdma_fifo #(.WIDTH({channel.width}), .DEPTH({channel.depth}), "
        f".BLOCK_RAM({int(channel.depth > SRL_DEPTH)}), .CHANNEL({channel.number})) {wire} (",
        f"    .clk(clk), .rst(rst), .in_data({{{', '.join(pieces)}}}),",
        f"    .in_valid({wire}_in_valid), .in_ready({wire}_in_ready),",
        f"    .out_data({wire}_held), .out_valid({wire}_out_valid), .out_ready({wire}_out_ready));",
    ]


def _instance(number: int, node: Node) -> list[str]:
    ports = len(node.module.ports)
    lines = [f"  wire n{number}_fire;", f"  wire [{ports - 1}:0] n{number}_lacks;"]
    connected = [
        ".clk(clk), .rst(rst)",
        f".fire(n{number}_fire), .lacks(n{number}_lacks)",
        *(text for port in node.module.ports for text in _connect(number, port, node, lines)),
    ]
    return [*lines, f"  {node.module.name} n{number} (", "    " + ",\n    ".join(connected) + ");"]


def _connect(number: int, port: Port, node: Node, lines: list[str]) -> list[str]:
    """A port's connections; tokens are whole words at a process, bytes in a channel."""
    channel = node.channels[port.index]
    wire, side = _wire(channel), "in" if port.is_output else "out"
    bits, padding = 8 * channel.bytes, 32 * port.words - 8 * channel.bytes
    local = f"n{number}_{port.name}"
    lines.append(f"  wire [{32 * port.words - 1}:0] {local};")
    if port.is_output:
        lines.append(f"  assign {wire}_in = {local}[{bits - 1}:0];")
    else:
        zeros = f"{padding}'b0, " if padding else ""
        lines.append(f"  assign {local} = {{{zeros}{wire}_out}};")
    return [
        f".{port.name}_data({local})",
        f".{port.name}_valid({wire}_{side}_valid)",
        f".{port.name}_ready({wire}_{side}_ready)",
    ]

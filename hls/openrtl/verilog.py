"""Verilog of a process: its segments as logic, its registers, a handshake per stream.

A port has data, valid and ready as AXI4-Stream has them. All streams that a clock cycle uses move
together, or the process stands still: `fire` says which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .ir import Block, Constant, Function, Instruction, Value
from .machine import Access, Machine, Segment, access, incoming, is_ignored
from .memory import NO_VALUE, Place, place_of, rows

_BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "lshr": ">>",
}
_COMPARE = {
    "eq": "==",
    "ne": "!=",
    "ult": "<",
    "ule": "<=",
    "ugt": ">",
    "uge": ">=",
    "slt": "<",
    "sle": "<=",
    "sgt": ">",
    "sge": ">=",
}


@dataclass
class Port:
    """A stream of a process: its place among the parameters, words of its tokens."""

    index: int
    is_output: bool
    words: int = 0

    @property
    def name(self) -> str:
        """The prefix of its signals."""
        return f"p{self.index}"


@dataclass
class Module:
    """A process in Verilog."""

    name: str
    ports: list[Port]
    text: str
    zero: dict[int, int] = field(default_factory=dict)
    """Bits of an output's tokens that are always 0, by port."""
    read: dict[int, int] = field(default_factory=dict)
    """Bits of an input's tokens that are looked at, by port."""


def translate(function: Function, name: str) -> Module:
    """A process as a Verilog module; `Untranslatable` if there is none."""
    return _Writer(Machine(function), name).module()


def literal(width: int, value: int | None) -> str:
    """A constant; 0 where any will do."""
    return f"{width}'h{value or 0:x}"


class _Writer:
    def __init__(self, machine: Machine, name: str) -> None:
        self.machine = machine
        self.name = name
        self.lines: list[str] = []
        self.ports = _ports(machine)
        self.cuts = {cut: i for i, cut in enumerate(machine.cuts)}
        self.uses: dict[int, list[str]] = {port.index: [] for port in self.ports}
        self.data: dict[tuple[int, int], list[tuple[str, Value, _Scope]]] = {}
        self.memories: dict[tuple[Instruction, int], str] = {}
        self.stores: list[str] = []
        self.next_cut: list[tuple[str, Block]] = []
        self.next_value: dict[Instruction, list[tuple[str, str]]] = {
            register: [] for register in machine.registers
        }

    def module(self) -> Module:
        self._declare()
        for segment in self.machine.segments:
            self._segment(segment)
        self._handshake()
        self._registers()
        signals = ["input wire clk", "input wire rst"]
        for port in self.ports:
            ours, theirs = ("output", "input") if port.is_output else ("input", "output")
            signals += [
                f"{ours} wire [{32 * port.words - 1}:0] {port.name}_data",
                f"{ours} wire {port.name}_valid",
                f"{theirs} wire {port.name}_ready",
            ]
        signals += ["output wire fire", f"output wire [{len(self.ports) - 1}:0] lacks"]
        head = f"module {self.name} (\n  " + ",\n  ".join(signals) + "\n);\n"
        text = head + "".join(f"  {line}\n" for line in self.lines) + "endmodule\n"
        return Module(self.name, self.ports, text, *self._bits())

    # Names.

    def register(self, value: Instruction) -> str:
        return f"r{value.number}"

    def at(self, cut: Block) -> str:
        return f"at == {self.cuts[cut]}" if len(self.cuts) > 1 else "1'b1"

    def emit(self, line: str) -> None:
        self.lines.append(line)

    # Parts of the module.

    def _declare(self) -> None:
        if len(self.cuts) > 1:
            bits = (len(self.cuts) - 1).bit_length()
            self.emit(f"reg [{bits - 1}:0] at;")
        for value in self.machine.registers:
            self.emit(f"reg [{value.width - 1}:0] {self.register(value)};")

    def _segment(self, segment: Segment) -> None:
        scope = _Scope(self, segment)
        for block in segment.blocks:
            scope.enter(block)
            for instruction in block.instructions:
                scope.instruction(block, instruction)
        for block, found in segment.accesses():
            if found.word == 0:
                self.uses[found.stream].append(scope.active(block))
            if found.is_write:
                key = found.stream, found.word
                value = found.call.operands[2]
                self.data.setdefault(key, []).append((scope.active(block), value, scope))
        for block, target in segment.edges():
            if target is None or target in self.cuts:
                self._leave(scope, block, target)

    def _leave(self, scope: _Scope, block: Block, target: Block | None) -> None:
        """What a segment's end does to the registers."""
        edge = scope.active(block) if target is None else scope.edge(block, target)
        came_from = block
        if target is None:
            target, came_from = self.machine.initial, self.machine.start
        self.next_cut.append((edge, target))
        for value in self.machine.live[target]:
            if value in target.phis:
                new = incoming(value, came_from)
                if isinstance(new, Constant) and new.value is None:
                    continue
            elif value in scope.defined and value not in scope.segment.cut.phis:
                new = value
            else:
                continue
            text = scope.operand(new)
            if text != self.register(value):
                self.next_value[value].append((edge, text))

    def memory(self, access: Instruction, place: Place) -> str:
        """The memory that a column of a line buffer is; declared where it is used first."""
        key = place.array, place.offset
        if key not in self.memories:
            if place.row is None:
                raise access.refuse("a variable in memory: it is indexed by data elsewhere")
            name = f"m{place.array.number}_{place.offset}"
            width = access.width or access.operands[0].width
            declared = f"reg [{width - 1}:0] {name} [0:{rows(place.array) - 1}];"
            self.lines.insert(0, f'(* ram_style = "distributed" *) {declared}')
            self.memories[key] = name
        return self.memories[key]

    def _handshake(self) -> None:
        moves = []
        for port in self.ports:
            other = f"{port.name}_{'ready' if port.is_output else 'valid'}"
            own = f"{port.name}_{'valid' if port.is_output else 'ready'}"
            self.emit(f"wire {port.name}_used = {_any(self.uses[port.index])};")
            self.emit(f"assign {own} = {port.name}_used & fire;")
            moves.append(f"(~{port.name}_used | {other})")
            if port.is_output:
                for word in range(port.words):
                    choices = self.data.get((port.index, word), [])
                    texts = [(when, scope.operand(value)) for when, value, scope in choices]
                    high, low = 32 * word + 31, 32 * word
                    self.emit(f"assign {port.name}_data[{high}:{low}] = {_choose(texts, 32)};")
        self.emit(f"assign fire = {' & '.join(moves)};")
        lacks = [f"~{move}" for move in reversed(moves)]
        self.emit(f"assign lacks = {{{', '.join(lacks)}}};")

    def _registers(self) -> None:
        self.emit("always @(posedge clk) begin")
        self.emit("  if (rst) begin")
        if len(self.cuts) > 1:
            self.emit(f"    at <= {self.cuts[self.machine.initial]};")
        for value in self.machine.live[self.machine.initial]:
            if value in self.machine.initial.phis and self.machine.start is not None:
                new = incoming(value, self.machine.start)
                if not isinstance(new, Constant):
                    raise value.refuse("what the process begins with is not constant")
                if new.value is not None:
                    self.emit(f"    {self.register(value)} <= {literal(value.width, new.value)};")
        self.emit("  end else if (fire) begin")
        if len(self.cuts) > 1:
            for edge, target in self.next_cut:
                self.emit(f"    if ({edge}) at <= {self.cuts[target]};")
        for store in self.stores:
            self.emit(f"    {store}")
        for value, choices in self.next_value.items():
            for edge, text in choices:
                self.emit(f"    if ({edge}) {self.register(value)} <= {text};")
        self.emit("  end")
        self.emit("end")

    def _bits(self) -> tuple[dict[int, int], dict[int, int]]:
        """Of each port's tokens: bits always 0, bits looked at."""
        zero: dict[int, int] = {}
        read: dict[int, int] = {}
        known: dict[Instruction, int] = {}
        users = _users(self.machine.function)
        for port in self.ports:
            if port.is_output:
                zero[port.index] = 0
                for word in range(port.words):
                    bits = 0xFFFFFFFF
                    for _, value, _ in self.data.get((port.index, word), []):
                        bits &= _zeros(value, known)
                    zero[port.index] |= bits << 32 * word
            else:
                read[port.index] = 0
        for segment in self.machine.segments:
            for _, found in segment.accesses():
                if not found.is_write:
                    bits = _looked_at(found.call, users)
                    read[found.stream] |= bits << 32 * found.word
        return zero, read


class _Scope:
    """Names of values and blocks within a segment."""

    def __init__(self, writer: _Writer, segment: Segment) -> None:
        self.writer = writer
        self.segment = segment
        number = writer.cuts[segment.cut]
        self.prefix = f"s{number}_" if len(writer.cuts) > 1 else ""
        self.defined = {i for block in segment.blocks for i in block.instructions}
        self.into: dict[Block, list[Block]] = {}
        for block, target in segment.edges():
            if target is not None and target not in writer.cuts:
                self.into.setdefault(target, []).append(block)

    def active(self, block: Block) -> str:
        return f"{self.prefix}b{block.number}"

    def operand(self, value: Value) -> str:
        if isinstance(value, Constant):
            return literal(value.width, value.value)
        if not isinstance(value, Instruction):
            return ""
        if value in self.defined and value not in self.segment.cut.phis:
            return f"{self.prefix}v{value.number}"
        return self.writer.register(value)

    def enter(self, block: Block) -> None:
        """The wire that says whether control comes here."""
        if block is self.segment.cut:
            when = self.writer.at(block)
        else:
            when = _any([self.edge(before, block) for before in self.into[block]])
        self.writer.emit(f"wire {self.active(block)} = {when};")

    def edge(self, block: Block, target: Block) -> str:
        """When control goes from one block to another."""
        end, here = block.terminator, self.active(block)
        if len(set(end.blocks)) == 1:
            return here
        condition = end.operands[0]
        if end.opcode == "br":
            text = self.operand(condition)
            return f"({here} & {text})" if target is end.blocks[0] else f"({here} & ~{text})"
        cases = zip(end.operands[1:], end.blocks[1:], strict=True)
        same = [self.equals(condition, value) for value, to in cases if to is target]
        if target is end.blocks[0]:
            other = [
                self.equals(condition, value)
                for value, to in zip(end.operands[1:], end.blocks[1:], strict=True)
                if to is not target
            ]
            return f"({here} & ~({_any(other)}))"
        return f"({here} & ({_any(same)}))"

    def equals(self, left: Value, right: Value) -> str:
        return f"({self.operand(left)} == {self.operand(right)})"

    def instruction(self, block: Block, i: Instruction) -> None:
        """The wire of what an instruction computes."""
        if i.opcode in ("br", "switch", "ret", "unreachable") or is_ignored(i):
            return
        if i.opcode == "phi" and block is self.segment.cut:
            return
        if i.opcode == "store":
            place = place_of(i)
            element = f"{self.writer.memory(i, place)}[{self.row(i, place)}]"
            text = f"if ({self.active(block)}) {element} <= {self.operand(i.operands[0])};"
            self.writer.stores.append(text)
        found = access(i)
        if i.opcode in NO_VALUE or (found and found.is_write):
            return
        if i.width <= 0:
            raise i.refuse("there is no hardware for this")
        text = self._read(found) if found else self._expression(block, i)
        self.writer.emit(f"wire [{i.width - 1}:0] {self.operand(i)} = {text};")

    def row(self, i: Instruction, place: Place) -> str:
        """A row's number, as wide as the line buffer is long."""
        bits = max(1, (rows(place.array) - 1).bit_length())
        return f"{self.operand(place.row)}[{bits - 1}:0]"

    def _load(self, i: Instruction) -> str:
        place = place_of(i)
        if isinstance(place.array, Instruction):
            return f"{self.writer.memory(i, place)}[{self.row(i, place)}]"
        table = self.writer.machine.function.tables.get(place.array)
        if table is None or i.width != 32 or place.row is None or place.stride != 4:
            raise i.refuse("a constant table is to be an array of 32-bit words")
        row, words = self.operand(place.row), table[place.offset // 4 :]
        bits = max(1, (len(words) - 1).bit_length())
        cases = (f"{row}[{bits - 1}:0] == {n} ? 32'h{word:x} : " for n, word in enumerate(words))
        return "".join(cases) + "32'h0"

    def _read(self, found: Access) -> str:
        return f"p{found.stream}_data[{32 * found.word + 31}:{32 * found.word}]"

    def _expression(self, block: Block, i: Instruction) -> str:
        if i.opcode == "phi":
            choices = [
                (self.edge(before, block), self.operand(incoming(i, before)))
                for before in self.into[block]
                if not _is_undefined(incoming(i, before))
            ]
            return _choose(choices, i.width)
        if i.opcode == "load":
            return self._load(i)
        texts = [self.operand(o) for o in i.operands]
        if i.opcode in _BINARY:
            return f"{texts[0]} {_BINARY[i.opcode]} {texts[1]}"
        if i.opcode == "call":
            return self._call(i, texts)
        made = _OTHERS.get(i.opcode)
        if made is None:
            raise i.refuse("there is no hardware for this")
        return made(i, texts)

    def _call(self, i: Instruction, texts: list[str]) -> str:
        kind = i.callee.split(".")
        made = _INTRINSICS.get(kind[1]) if kind[0] == "llvm" and len(kind) > 1 else None
        if made is None:
            raise i.refuse("there is no hardware for this call")
        return made(i, texts)


def _compare(i: Instruction, texts: list[str]) -> str:
    words = i.text.split("icmp ")[1].split()
    kind = words[1] if words[0] == "samesign" else words[0]
    left, right = (f"$signed({t})" for t in texts) if kind[0] == "s" else texts
    return f"{left} {_COMPARE[kind]} {right}"


def _extend(i: Instruction, texts: list[str]) -> str:
    extra = i.width - i.operands[0].width
    top = "1'b0" if i.opcode == "zext" else f"{texts[0]}[{i.operands[0].width - 1}]"
    return f"{{{{{extra}{{{top}}}}}, {texts[0]}}}"


def _divide(i: Instruction, texts: list[str]) -> str:
    if not isinstance(i.operands[1], Constant):
        raise i.refuse("division by what is not constant")
    return f"{texts[0]} {'/' if i.opcode == 'udiv' else '%'} {texts[1]}"


def _funnel(i: Instruction, texts: list[str]) -> str:
    """llvm.fshl and fshr: a shift of two words side by side."""
    by = i.operands[2]
    if not isinstance(by, Constant) or by.value is None:
        raise i.refuse("a rotation by what is not constant")
    left = by.value % i.width
    if i.callee.startswith("llvm.fshr"):
        left = (i.width - left) % i.width
        if left == 0:
            return texts[1]
    if left == 0:
        return texts[0]
    return f"({texts[0]} << {left}) | ({texts[1]} >> {i.width - left})"


def _bits_set(i: Instruction, texts: list[str]) -> str:
    parts = [f"{texts[0]}[{bit}]" for bit in range(i.operands[0].width)]
    while len(parts) > 1:
        pairs = [f"({a} + {b})" for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + ([parts[-1]] if len(parts) % 2 else [])
    return parts[0]


def _first_set(i: Instruction, text: str, bits: range) -> str:
    """How many zeros lie before the bit looked at last, as a chain that begins there."""
    count = [bit if bits.step < 0 else i.width - 1 - bit for bit in reversed(bits)]
    choices = zip(reversed(bits), count, strict=True)
    chain = "".join(f"{text}[{bit}] ? {literal(i.width, n)} : " for bit, n in choices)
    return chain + literal(i.width, i.width)


def _lesser(i: Instruction, texts: list[str]) -> str:
    kind = i.callee.split(".")[1]
    left, right = (f"$signed({t})" for t in texts[:2]) if kind[0] == "s" else texts[:2]
    sign = "<" if kind.endswith("min") else ">"
    return f"{left} {sign} {right} ? {texts[0]} : {texts[1]}"


_OTHERS: dict[str, Callable[[Instruction, list[str]], str]] = {
    "icmp": _compare,
    "zext": _extend,
    "sext": _extend,
    "trunc": lambda i, t: f"{t[0]}[{i.width - 1}:0]",
    "select": lambda i, t: f"{t[0]} ? {t[1]} : {t[2]}",
    "freeze": lambda i, t: t[0],
    "ashr": lambda i, t: f"$signed({t[0]}) >>> {t[1]}",
    "udiv": _divide,
    "urem": _divide,
}
_INTRINSICS: dict[str, Callable[[Instruction, list[str]], str]] = {
    "umin": _lesser,
    "umax": _lesser,
    "smin": _lesser,
    "smax": _lesser,
    "fshl": _funnel,
    "fshr": _funnel,
    "ctpop": _bits_set,
    "cttz": lambda i, t: _first_set(i, t[0], range(i.width - 1, -1, -1)),
    "ctlz": lambda i, t: _first_set(i, t[0], range(i.width)),
    "abs": lambda i, t: f"{t[0]}[{i.width - 1}] ? -{t[0]} : {t[0]}",
    "usub": lambda i, t: f"{t[0]} > {t[1]} ? {t[0]} - {t[1]} : {literal(i.width, 0)}",
    "bswap": lambda i, t: (
        "{" + ", ".join(f"{t[0]}[{b + 7}:{b}]" for b in range(0, i.width, 8)) + "}"
    ),
}


def _ports(machine: Machine) -> list[Port]:
    ports: dict[int, Port] = {}
    for segment in machine.segments:
        for _, found in segment.accesses():
            port = ports.setdefault(found.stream, Port(found.stream, found.is_write))
            if port.is_output != found.is_write:
                raise found.call.refuse("a process reads and writes the same stream")
            port.words = max(port.words, found.word + 1)
    return [ports[index] for index in sorted(ports)]


def _any(conditions: list[str]) -> str:
    return " | ".join(dict.fromkeys(conditions)) if conditions else "1'b0"


def _choose(choices: list[tuple[str, str]], width: int) -> str:
    """The value of the one condition that holds."""
    if not choices:
        return literal(width, 0)
    *first, (_, last) = choices
    return "".join(f"{when} ? {text} : " for when, text in first if text != last) + last


def _is_undefined(value: object) -> bool:
    return isinstance(value, Constant) and value.value is None


def _users(function: Function) -> dict[Instruction, list[Instruction]]:
    users: dict[Instruction, list[Instruction]] = {}
    for block in function.blocks:
        for user in block.instructions:
            for operand in user.operands:
                if isinstance(operand, Instruction):
                    users.setdefault(operand, []).append(user)
    return users


def _zeros(value: Value, known: dict[Instruction, int]) -> int:
    """Bits of a value that are 0 whatever comes."""
    if isinstance(value, Constant):
        return ~(value.value or 0) & ((1 << value.width) - 1)
    if not isinstance(value, Instruction):
        return 0
    if value not in known:
        known[value] = 0  # around a loop: nothing is known
        known[value] = _zeros_of(value, known)
    return known[value]


def _zeros_of(i: Instruction, known: dict[Instruction, int]) -> int:
    every = (1 << i.width) - 1
    first, second = ([*i.operands, None, None])[:2]
    if i.opcode == "zext":
        return every & ~((1 << first.width) - 1) | _zeros(first, known)
    if i.opcode in ("trunc", "freeze"):
        return _zeros(first, known) & every
    if i.opcode == "and":
        return _zeros(first, known) | _zeros(second, known)
    if i.opcode in ("or", "xor"):
        return _zeros(first, known) & _zeros(second, known)
    if i.opcode == "select":
        return _zeros(second, known) & _zeros(i.operands[2], known)
    if i.opcode == "phi":
        zero = every
        for operand in i.operands:
            zero &= _zeros(operand, known)
        return zero
    if i.opcode in ("shl", "lshr") and isinstance(second, Constant) and second.value is not None:
        zero, by = _zeros(first, known), second.value
        if i.opcode == "shl":
            return (zero << by | (1 << by) - 1) & every
        return zero >> by | every & ~(every >> by)
    return 0


def _looked_at(value: Instruction, users: dict[Instruction, list[Instruction]]) -> int:
    """Bits of a value that something depends on."""
    bits = 0
    for user in users.get(value, []):
        second = user.operands[1] if len(user.operands) > 1 else None
        if user.opcode == "trunc":
            bits |= (1 << user.width) - 1
        elif user.opcode == "and" and isinstance(second, Constant):
            bits |= second.value or 0
        elif user.opcode == "lshr" and isinstance(second, Constant) and second.value is not None:
            bits |= _looked_at(user, users) << second.value
        else:
            return (1 << value.width) - 1
    return bits & ((1 << value.width) - 1)

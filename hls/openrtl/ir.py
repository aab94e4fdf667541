"""The engines' HLS C++ as LLVM IR: compiled by clang, made flat by LLVM's own passes, read by
llvmlite's parser.

After the passes a process is one function. Its state is in values that go around its loop (phi
nodes); arrays, structs, inner loops and calls are gone.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import llvmlite.binding as llvm

from .tools import clang

HLS = Path(__file__).resolve().parents[1]
SHIM = HLS / "openrtl/include"
_ROUNDS = 3


class Untranslatable(Exception):  # noqa: N818 - says what it is
    """C++ that no hardware is made of; the message names the instruction and the source line."""


@dataclass(frozen=True)
class Constant:
    """An integer; ``value`` None where any will do (undef, poison)."""

    width: int
    value: int | None


@dataclass(frozen=True)
class Argument:
    """A parameter of the function, by position: a stream."""

    index: int


@dataclass(frozen=True)
class Global:
    """A function or an object of the program."""

    name: str


@dataclass(eq=False)
class Instruction:
    """An instruction; what it computes is a value of ``width`` bits (0: none, a pointer: 64)."""

    opcode: str
    width: int
    text: str
    place: str
    operands: list[Value] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    """Where a terminator goes; for a phi node where its operands come from."""
    number: int = 0

    @property
    def callee(self) -> str:
        """The function that a call names; empty for anything else."""
        last = self.operands[-1] if self.operands else None
        return last.name if self.opcode == "call" and isinstance(last, Global) else ""

    def refuse(self, why: str) -> Untranslatable:
        """The error that says why there is no hardware for this."""
        return Untranslatable(f"{self.place}: {why}: {self.text}")


@dataclass(eq=False)
class Block:
    """A basic block: phi nodes, instructions, a terminator."""

    number: int
    instructions: list[Instruction] = field(default_factory=list)

    @property
    def terminator(self) -> Instruction:
        """The last instruction."""
        return self.instructions[-1]

    @property
    def phis(self) -> list[Instruction]:
        """The phi nodes."""
        return [i for i in self.instructions if i.opcode == "phi"]


@dataclass
class Function:
    """A function's blocks; the first is the entry."""

    name: str
    arguments: int
    blocks: list[Block]
    tables: dict[str, list[int]]
    """The program's constant arrays of 32-bit words."""


Value = Constant | Argument | Global | Instruction


def program(
    source: Path, macros: dict[str, int], include: tuple[Path, ...] = ()
) -> tuple[dict[str, Function], dict[str, str]]:
    """The functions and the texts (C strings) of a source after the passes."""
    text = _compile(source, macros, include)
    module = llvm.parse_assembly(text)
    _optimise(module)
    module.verify()
    places, tables = _Places(str(module)), _tables(module)
    functions = {
        function.name: _function(function, places, tables)
        for function in module.functions
        if not function.is_declaration
    }
    return functions, _texts(module)


def _compile(source: Path, macros: dict[str, int], include: tuple[Path, ...]) -> str:
    """LLVM IR as the front end leaves it. Debug information gives source lines."""
    command = [
        *clang(),
        *("-x", "c++", "-std=c++17", "-O2", "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm"),
        *("-gline-tables-only", "-fno-exceptions", "-fno-rtti", "-Wno-unknown-pragmas", "-w"),
        *("-target", "x86_64-linux-gnu", "-D__SYNTHESIS__"),
        *(f"-D{name}={value}" for name, value in macros.items()),
        *(f"-I{folder}" for folder in (SHIM, HLS / "include", *include)),
        *("-o", "-", str(source)),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Untranslatable(f"{source}: clang says\n{done.stderr}")
    return done.stdout


def _optimise(module: llvm.ModuleRef) -> None:
    """Inline, unroll, put arrays and structs into values; but leave a process' loop as it is.

    Passes that copy control flow into the loop (peeling, jump threading, unswitching) stay out:
    one turn of the loop is one clock cycle.
    """
    for option in (
        "unroll-allow-peeling=false",
        "unroll-runtime=false",
        "unroll-threshold=1000000",
    ):
        llvm.set_option("", f"--{option}")
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_interleaving = False
    llvm.initialize_native_target()
    machine = llvm.Target.from_triple(module.triple).create_target_machine()
    builder = llvm.create_pass_builder(machine, tuning)
    for function in module.functions:
        if not function.is_declaration:
            function.add_function_attribute("alwaysinline")
    first = llvm.create_new_module_pass_manager()
    first.add_always_inliner_pass()
    first.run(module, builder)
    for _ in range(_ROUNDS):
        passes = llvm.create_new_function_pass_manager()
        passes.add_sroa_pass()
        passes.add_sccp_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_loop_unroll_pass()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_new_gvn_pass()
        passes.add_simplify_cfg_pass()
        passes.add_aggressive_dce_pass()
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)


class _Places:
    """Source lines by number of their metadata."""

    def __init__(self, text: str) -> None:
        self._nodes = dict(re.findall(r"^!(\d+) = (?:distinct )?(!DI.*)$", text, re.M))

    def __call__(self, line: str) -> str:
        found = re.search(r"!dbg !(\d+)", line)
        if not found:
            return "no source line"
        node = self._nodes.get(found[1], "")
        number = re.search(r"line: (\d+)", node)
        return f"{self._file(node)}:{number[1] if number else '?'}"

    def _file(self, node: str) -> str:
        scope = re.search(r"scope: !(\d+)", node)
        file = re.search(r"\bfile: !(\d+)", node)
        if file:
            named = re.search(r'filename: "([^"]*)"', self._nodes.get(file[1], ""))
            return Path(named[1]).name if named else "?"
        return self._file(self._nodes.get(scope[1], "")) if scope else "?"


def _function(source: llvm.ValueRef, places: _Places, tables: dict[str, list[int]]) -> Function:
    lines = iter(_lines(str(source)))
    blocks = {block: Block(i) for i, block in enumerate(source.blocks)}
    arguments = {argument: Argument(i) for i, argument in enumerate(source.arguments)}
    made: dict[llvm.ValueRef, Instruction] = {}
    text_of: dict[llvm.ValueRef, str] = {}
    for block in source.blocks:
        for item in block.instructions:
            text = text_of[item] = next(lines)
            width = _width(item.type)
            clear = re.sub(r",? ![a-z]+ !\d+", "", text)
            made[item] = Instruction(item.opcode, width, clear, places(text), number=len(made))
            blocks[block].instructions.append(made[item])

    def value(operand: llvm.ValueRef) -> Value:
        if operand in made:
            return made[operand]
        if operand in arguments:
            return arguments[operand]
        kind = operand.value_kind
        if kind in (llvm.ValueKind.function, llvm.ValueKind.global_variable):
            return Global(operand.name)
        return _constant(operand)

    for item, instruction in made.items():
        operands = list(item.operands)
        instruction.blocks = [blocks[o] for o in operands if o in blocks]
        instruction.operands = [value(o) for o in operands if o not in blocks]
        if item.opcode == "phi":
            instruction.blocks = [blocks[b] for b in item.incoming_blocks]
        if item.opcode == "switch" and len(instruction.operands) == 1:
            # From LLVM 22 on the cases are no operands.
            kind = instruction.operands[0].width
            cases = re.findall(r"i\d+ (-?\d+|true|false), label", text_of[item])
            instruction.operands += [Constant(kind, _number(case) % (1 << kind)) for case in cases]
        if item.opcode == "br" and len(instruction.blocks) == 2:
            # LLVM keeps a branch's operands as condition, false, true.
            instruction.blocks.reverse()
    return Function(source.name, len(arguments), list(blocks.values()), tables)


def _lines(text: str) -> list[str]:
    """The instructions of a printed function, each in one line."""
    found: list[str] = []
    is_open = False
    for line in text.splitlines():
        if is_open:
            found[-1] += " " + line.strip()
            is_open = "]" not in line
        elif line.startswith("  "):
            found.append(line.strip())
            is_open = line.strip().startswith("switch") and "]" not in line
    return found


def _width(kind: llvm.TypeRef) -> int:
    name = str(kind)
    if name == "void" or name == "label":
        return 0
    return int(name[1:]) if re.fullmatch(r"i\d+", name) else 64 if name == "ptr" else -1


def _constant(operand: llvm.ValueRef) -> Constant | Global:
    text = str(operand)
    _kind, _, literal = text.partition(" ")
    width = _width(operand.type)
    if literal in ("undef", "poison"):
        return Constant(width, None)
    if width > 0 and re.fullmatch(r"-?\d+|true|false", literal):
        return Constant(width, _number(literal) % (1 << width))
    return Global(text)


def _number(literal: str) -> int:
    return int(literal == "true") if literal in ("true", "false") else int(literal)


def _texts(module: llvm.ModuleRef) -> dict[str, str]:
    found = {}
    for item in module.global_variables:
        text = re.search(r'c"([^"\\]*)\\00"', str(item))
        if text:
            found[item.name] = text[1]
    return found


def _tables(module: llvm.ModuleRef) -> dict[str, list[int]]:
    found = {}
    for item in module.global_variables:
        text = str(item)
        if " constant " in text and not re.search(r"zeroinitializer|\bi(8|16|64) |ptr", text):
            words = re.findall(r"\bi32 (-?\d+)", text)
            found[item.name] = [int(word) % (1 << 32) for word in words]
    return found

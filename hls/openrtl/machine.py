"""A process as a state machine: where its function is cut into clock cycles, and what it has to
remember from one to the next.

A cut is a block that a clock cycle begins at: the head of a loop, the function's entry where that
does more than begin a loop, and what follows a loop where it needs a stream again that the loop's
last turn has used. The blocks from a cut to the next cuts are a segment; it has no cycle, so it is
logic. Values that live in a later segment, and phi nodes of cuts, are registers. A process that
returns starts again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .ir import Argument, Block, Constant, Function, Instruction, Untranslatable
from .memory import inputs, place_of

READ, WRITE = "actdma_read", "actdma_write"
_INTRINSICS_IGNORED = ("llvm.lifetime", "llvm.assume", "llvm.dbg", "llvm.experimental.noalias")


@dataclass(frozen=True)
class Access:
    """A read or a write of one word of a stream's token."""

    call: Instruction
    stream: int
    word: int
    is_write: bool


def access(instruction: Instruction) -> Access | None:
    """What a call does with a stream; None for any other instruction."""
    if instruction.callee not in (READ, WRITE):
        return None
    stream, word = instruction.operands[:2]
    if not isinstance(stream, Argument) or not isinstance(word, Constant) or word.value is None:
        raise instruction.refuse("which stream this is depends on data")
    return Access(instruction, stream.index, word.value, instruction.callee == WRITE)


def is_ignored(instruction: Instruction) -> bool:
    """Whether a call is there for the compiler alone."""
    return instruction.callee.startswith(_INTRINSICS_IGNORED)


@dataclass
class Segment:
    """What can happen in one clock cycle that begins at ``cut``; blocks in the order of control."""

    cut: Block
    blocks: list[Block]

    def edges(self) -> Iterator[tuple[Block, Block | None]]:
        """From block to block, to a cut or (None) to the function's end."""
        for block in self.blocks:
            if block.terminator.opcode == "ret":
                yield block, None
            for target in dict.fromkeys(block.terminator.blocks):
                yield block, target

    def accesses(self) -> Iterator[tuple[Block, Access]]:
        """All reads and writes of streams."""
        for block in self.blocks:
            for instruction in block.instructions:
                found = access(instruction)
                if found:
                    yield block, found


class Machine:
    """The segments and registers of a process.

    ``initial``: the cut that a reset leads to, and a return; ``start``: the block that it comes
    from, for the phi nodes there, None where the cut is the entry itself; ``registers``: values
    that are remembered; ``live``: those of them that a cut's segment, or a later one, looks at.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        entry = function.blocks[0]
        heads = _loop_heads(entry)
        idle = all(i.opcode == "alloca" or is_ignored(i) for i in entry.instructions[:-1])
        if idle and len(entry.terminator.blocks) == 1 and entry.terminator.blocks[0] in heads:
            self.initial, self.start = entry.terminator.blocks[0], entry
        else:
            self.initial, self.start = entry, None
        cuts = [self.initial, *(head for head in heads if head is not self.initial)]
        self.segments = self._segments(cuts)
        for segment in self.segments:
            _check_memories(segment)
        self.cuts = [segment.cut for segment in self.segments]
        self.live = self._liveness()
        kept = set().union(*self.live.values())
        self.registers = sorted(kept, key=lambda value: value.number)

    def _segments(self, cuts: list[Block]) -> list[Segment]:
        while True:
            segments = [_segment(cut, cuts) for cut in cuts]
            more = next((cut for s in segments if (cut := _conflict(s, self.function))), None)
            if more is None:
                return segments
            cuts = [*cuts, more]

    def _liveness(self) -> dict[Block, set[Instruction]]:
        live: dict[Block, set[Instruction]] = {s.cut: set() for s in self.segments}
        changed = True
        while changed:
            changed = False
            for segment in self.segments:
                found = self._wanted(segment, live)
                changed |= found != live[segment.cut]
                live[segment.cut] = found
        return live

    def _wanted(self, segment: Segment, live: dict[Block, set[Instruction]]) -> set[Instruction]:
        wanted: set[Instruction] = set()
        for block in segment.blocks:
            for instruction in block.instructions:
                if instruction.opcode != "phi" and not is_ignored(instruction):
                    wanted |= {o for o in inputs(instruction) if isinstance(o, Instruction)}
        for block, target in segment.edges():
            if target is None:
                continue
            kept = live.get(target, set())
            for phi in target.phis:
                if target not in live or phi in kept:
                    value = incoming(phi, block)
                    wanted |= {value} if isinstance(value, Instruction) else set()
            wanted |= kept - set(target.phis)
        defined = {i for block in segment.blocks for i in block.instructions}
        return wanted - defined | (wanted & set(segment.cut.phis))


def incoming(phi: Instruction, block: Block) -> object:
    """The operand of a phi node for the way from ``block``."""
    return phi.operands[phi.blocks.index(block)]


def _loop_heads(entry: Block) -> list[Block]:
    """Blocks that an edge leads back to."""
    heads: list[Block] = []
    done: set[Block] = set()
    path: set[Block] = set()
    stack: list[tuple[Block, Iterator[Block]]] = [(entry, iter(entry.terminator.blocks))]
    path.add(entry)
    while stack:
        block, targets = stack[-1]
        target = next(targets, None)
        if target is None:
            stack.pop()
            path.discard(block)
            done.add(block)
        elif target in path:
            if target not in heads:
                heads.append(target)
        elif target not in done:
            path.add(target)
            stack.append((target, iter(target.terminator.blocks)))
    return heads


def _segment(cut: Block, cuts: list[Block]) -> Segment:
    """The blocks from a cut to the next ones, sorted topologically."""
    order: list[Block] = []
    seen: set[Block] = set()

    def visit(block: Block) -> None:
        stack = [(block, iter(block.terminator.blocks))]
        seen.add(block)
        while stack:
            at, targets = stack[-1]
            target = next(targets, None)
            if target is None:
                order.append(at)
                stack.pop()
            elif target not in cuts and target not in seen:
                seen.add(target)
                stack.append((target, iter(target.terminator.blocks)))

    visit(cut)
    return Segment(cut, order[::-1])


def _conflict(segment: Segment, function: Function) -> Block | None:
    """A block that has to be a cut, as a stream is used twice on a way through the segment."""
    used: dict[Block, set[int]] = {}
    before: dict[Block, set[int]] = {block: set() for block in segment.blocks}
    for block, found in segment.accesses():
        if found.word == 0:
            streams = used.setdefault(block, set())
            if found.stream in streams:
                raise found.call.refuse("a stream is used twice in one clock cycle")
            streams.add(found.stream)
    for block in segment.blocks:
        clash = before[block] & used.get(block, set())
        if clash:
            return _exit(segment, block, function)
        after = before[block] | used.get(block, set())
        for target in block.terminator.blocks:
            if target in before and target is not segment.cut:
                before[target] |= after
    return None


def _check_memories(segment: Segment) -> None:
    """A cycle's writes come after its reads, so it may not read what it has written."""
    written: dict[Block, set[tuple[object, int]]] = {block: set() for block in segment.blocks}
    for block in segment.blocks:
        for instruction in block.instructions:
            if instruction.opcode not in ("load", "store"):
                continue
            place = place_of(instruction)
            if instruction.opcode == "store":
                written[block].add((place.array, place.offset))
            elif (place.array, place.offset) in written[block]:
                raise instruction.refuse("a line buffer is read after it is written in a cycle")
        for target in block.terminator.blocks:
            if target in written and target is not segment.cut:
                written[target] |= written[block]


def _exit(segment: Segment, block: Block, function: Function) -> Block:
    """The first block on the way to ``block`` that no longer leads back to the segment's cut."""
    back = _leading_to(segment.cut, segment)
    for candidate in segment.blocks:
        if candidate not in back and block in _reachable(candidate, segment):
            return candidate
    first = next(i for i in block.instructions if access(i))
    raise Untranslatable(
        f"{first.place}: {function.name} uses a stream twice in one clock cycle: {first.text}"
    )


def _reachable(block: Block, segment: Segment) -> set[Block]:
    found, stack = {block}, [block]
    while stack:
        for target in stack.pop().terminator.blocks:
            if target in segment.blocks and target not in found and target is not segment.cut:
                found.add(target)
                stack.append(target)
    return found


def _leading_to(cut: Block, segment: Segment) -> set[Block]:
    found = {block for block in segment.blocks if cut in block.terminator.blocks}
    for block in reversed(segment.blocks):
        if any(target in found for target in block.terminator.blocks):
            found.add(block)
    return found

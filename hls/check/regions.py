"""Dataflow regions: their form, their processes and streams."""

from __future__ import annotations

from collections.abc import Iterator

from clang.cindex import Cursor, CursorKind, TranslationUnit, TypeKind
from clangtree import (
    built,
    encloses,
    is_constexpr_if,
    is_stream,
    is_stream_method,
    loops,
    path_of,
    reaches,
    receiver,
)
from pragmas import attached
from rules import Report

PROCESS_MACROS = ("ACTDMA_PROCESS", "ACTDMA_TOP")


class Regions:
    """The regions of one parsed source."""

    def __init__(self, report: Report, unit: TranslationUnit) -> None:
        self.report = report
        self.directions: dict[tuple[str, int], set[str]] = {}
        self.marked = {
            (path_of(cursor), cursor.location.line)
            for cursor in unit.cursor.get_children()
            if cursor.kind == CursorKind.MACRO_INSTANTIATION and cursor.spelling in PROCESS_MACROS
        }

    def includes(self, function: Cursor) -> bool:
        """Whether a function is a region."""
        uses_macro = any(
            path == path_of(function) and encloses(function, line) for path, line in self.marked
        )
        return uses_macro or any(pragma.name == "DATAFLOW" for pragma in attached(function))

    def check(self, region: Cursor) -> None:
        """The form of a region, its processes and streams."""
        if not {pragma.name for pragma in attached(region)} & {"DATAFLOW", "INLINE"}:
            text = f"{region.spelling}: state DATAFLOW, or INLINE to be part of the caller's region"
            self.report.add(region, "region", text)
        body = next(c for c in region.get_children() if c.kind == CursorKind.COMPOUND_STMT)
        calls = [call for statement in body.get_children() for call in self.processes(statement)]
        for call in calls:
            if call.referenced is not None and call.referenced.get_definition() is not None:
                self.check_process(call, call.referenced.get_definition())
        declared = [c for c in body.walk_preorder() if c.kind == CursorKind.VAR_DECL]
        for stream in (c for c in declared if is_stream(c.type)):
            self.check_stream(stream, calls)
        for port in (c for c in region.get_arguments() if is_stream(c.type)):
            if sum(len(self.uses(call, port)) for call in calls) > 1:
                text = f"{port.spelling} is used by several processes: add one that splits"
                self.report.add(port, "region-stream", text)

    def processes(self, statement: Cursor) -> Iterator[Cursor]:
        """The calls of processes in a statement of a region."""
        is_marked = (path_of(statement), statement.location.line) in self.marked
        if statement.kind == CursorKind.CALL_EXPR and is_marked:
            yield statement
        elif is_constexpr_if(statement):
            for branch in built(statement):
                yield from self.processes(branch)
        elif statement.kind == CursorKind.COMPOUND_STMT:
            for inner in statement.get_children():
                yield from self.processes(inner)
        elif statement.kind == CursorKind.DECL_STMT:
            for declared in statement.get_children():
                if declared.kind != CursorKind.STATIC_ASSERT and not is_stream(declared.type):
                    text = f"{declared.spelling}: a region declares only streams"
                    self.report.add(declared, "region", text)
        elif statement.kind not in (CursorKind.NULL_STMT, CursorKind.STATIC_ASSERT):
            text = "move this into a process; a region calls ACTDMA_PROCESS(...) and no more"
            self.report.add(statement, "region", text)

    def check_process(self, call: Cursor, process: Cursor) -> None:
        """What may be called through ACTDMA_PROCESS."""
        if process.result_type.kind != TypeKind.VOID:
            self.report.add(
                call, "process", f"{process.spelling} returns a value: write to a stream"
            )
        if self.includes(process):
            return
        pipelined = [
            loop for loop in loops(process) if any(p.name == "PIPELINE" for p in attached(loop))
        ]
        if not any(is_stream(parameter.type) for parameter in process.get_arguments()):
            text = f"{process.spelling} has no stream: call it from a process"
            self.report.add(call, "process", text)
        for loop in pipelined:
            body = next(c for c in loop.get_children() if c.kind == CursorKind.COMPOUND_STMT)
            first = next(iter(body.get_children()), None)
            if first is None or first.spelling != "cycle":
                self.report.add(loop, "process", "begin the pipelined loop with cycle();")

    def check_stream(self, stream: Cursor, calls: list[Cursor]) -> None:
        """One writer, then one reader."""
        uses = [(i, use) for i, call in enumerate(calls) for use in self.uses(call, stream)]
        writers = [i for i, use in uses if use == "write"]
        readers = [i for i, use in uses if use == "read"]
        if len(writers) != 1 or len(readers) != 1:
            text = (
                f"{stream.spelling} has {len(writers)} writers and {len(readers)} readers: one each"
            )
            self.report.add(stream, "region-stream", text)
        elif writers >= readers:
            text = f"{stream.spelling} is read before it is written: no feedback in a region"
            self.report.add(stream, "region-stream", text)

    def uses(self, call: Cursor, stream: Cursor) -> list[str]:
        """What a call does with a stream: "read", "write", both or nothing."""
        callee = call.referenced.get_definition() if call.referenced is not None else None
        if callee is None:
            return []
        found: set[str] = set()
        for position, argument in enumerate(call.get_arguments()):
            if reaches(argument, stream):
                found |= self.direction(callee, position)
        return sorted(found)

    def direction(self, function: Cursor, position: int) -> set[str]:
        """What a function does with a parameter that is a stream."""
        key = function.get_usr(), position
        if key not in self.directions:
            self.directions[key] = set()
            parameter = list(function.get_arguments())[position]
            for call in function.walk_preorder():
                if call.kind != CursorKind.CALL_EXPR or call.referenced is None:
                    continue
                method = call.referenced.spelling.removesuffix("_nb")
                if is_stream_method(call.referenced) and reaches(receiver(call), parameter):
                    self.directions[key].update({method} & {"read", "write"})
                elif self.report.is_own(call.referenced):
                    self.directions[key].update(self.uses(call, parameter))
        return self.directions[key]

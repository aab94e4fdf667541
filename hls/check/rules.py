"""The rules, what a place breaks them, and those that look at one cursor alone."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from clang.cindex import Cursor, CursorKind, StorageClass, TLSKind, Type, TypeKind
from clangtree import (
    HLS,
    VARIABLES,
    element,
    first_words,
    in_namespace,
    is_constexpr,
    path_of,
    target,
)

RULES = {
    "parse": "the source compiles",
    "allocation": "no new, delete, malloc: storage is static in hardware",
    "recursion": "no function calls itself, directly or by way of others, at run time",
    "virtual": "no virtual functions: there is no table to call through",
    "exception": "no throw, try, catch",
    "rtti": "no dynamic_cast, typeid",
    "std": "nothing of namespace std but its integer types",
    "pointer": "no pointers to pointers",
    "function-pointer": "no function pointers, function objects, lambdas",
    "static-state": "no variable outlives its process but a constant",
    "variable-array": "array sizes are constants",
    "reinterpret": "no reinterpret_cast, unions, casts between pointers",
    "float": "no native floating point: the vendor's operators are not bit-exact",
    "division": "divisors are constants",
    "external-call": "every function called has a body here or is the vendor's",
    "loop-bound": "every loop has a constant trip count, or is pipelined and states LOOP_TRIPCOUNT",
    "pipeline": "a loop is pipelined (II = 1, flushing), or unrolled, or in a pipelined loop",
    "partition": "arrays used in a pipeline are partitioned completely or bound to a memory",
    "dynamic-index": "only memories are indexed by what is not constant after unrolling",
    "pragma": "pragmas are spelled as the vendor documents them",
    "pragma-place": "a pragma stands in a loop, function or top as its kind requires",
    "pragma-variable": "a pragma's variable or port is declared where the pragma stands",
    "interface": "a top states the protocol of every port and of its control (port return)",
    "stream-depth": "every stream states its depth",
    "stream-access": "streams are only read and written: what tests them depends on timing",
    "region": "a dataflow region declares streams and calls processes, nothing else",
    "region-stream": "a stream has one writer and, later in the region, one reader",
    "process": "a process is a void function of streams; its pipelined loops begin with cycle()",
    "unreached": "every function that synthesis sees is called from a top, or constexpr",
}

# Parts of the rules that are a kind of syntax.
SYNTAX = {
    CursorKind.CXX_NEW_EXPR: ("allocation", "new: declare an array of constant size"),
    CursorKind.CXX_DELETE_EXPR: ("allocation", "delete: declare an array of constant size"),
    CursorKind.CXX_THROW_EXPR: ("exception", "throw: carry a status in the token"),
    CursorKind.CXX_TRY_STMT: ("exception", "try: carry a status in the token"),
    CursorKind.CXX_DYNAMIC_CAST_EXPR: ("rtti", "dynamic_cast: make the type a template parameter"),
    CursorKind.CXX_TYPEID_EXPR: ("rtti", "typeid: make the type a template parameter"),
    CursorKind.LAMBDA_EXPR: ("function-pointer", "a lambda: write a function"),
    CursorKind.CXX_REINTERPRET_CAST_EXPR: (
        "reinterpret",
        "reinterpret_cast: assemble the words with shifts",
    ),
    CursorKind.UNION_DECL: ("reinterpret", "a union: assemble the words with shifts"),
    CursorKind.GOTO_STMT: ("loop-bound", "goto: write a loop of constant bounds"),
    CursorKind.INDIRECT_GOTO_STMT: ("loop-bound", "goto: write a loop of constant bounds"),
    CursorKind.ASM_STMT: ("external-call", "assembly: write it in C++"),
}
STD_TYPES = {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {"size_t"}
FLOATS = (TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.LONGDOUBLE, TypeKind.HALF, TypeKind.FLOAT128)


class Finding(NamedTuple):
    """One place that breaks a rule."""

    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


class Report:
    """The findings in the sources below `tree`."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree.resolve()
        self.findings: set[Finding] = set()

    def add(self, cursor: Cursor, rule: str, text: str) -> None:
        """Note a finding where a cursor stands, if that is in the tree."""
        self.add_line(path_of(cursor), cursor.location.line, rule, text)

    def add_line(self, path: Path | None, line: int, rule: str, text: str) -> None:
        """Note a finding at a line, if that is in the tree."""
        if rule not in RULES:
            raise KeyError(f"no rule {rule!r}")
        if path is not None and path.is_relative_to(self.tree):
            self.findings.add(Finding(path, line, rule, text))

    def is_own(self, cursor: Cursor) -> bool:
        """Whether a cursor stands in our sources (the vendor's headers are not looked into)."""
        path = path_of(cursor)
        is_vendor = path is not None and path.is_relative_to(HLS / "check/vendor")
        roots = (self.tree, HLS / "include", HLS / "src")
        return path is not None and not is_vendor and any(path.is_relative_to(r) for r in roots)

    def check_node(self, cursor: Cursor) -> None:
        """The rules that look at one cursor alone."""
        if cursor.kind in SYNTAX:
            self.add(cursor, *SYNTAX[cursor.kind])
        if cursor.kind == CursorKind.CXX_METHOD and cursor.is_virtual_method():
            self.add(cursor, "virtual", f"{cursor.spelling}: make the type a template parameter")
        if cursor.kind == CursorKind.CXX_BASE_SPECIFIER and first_words(cursor, 1) == ["virtual"]:
            self.add(cursor, "virtual", "a virtual base: make the type a template parameter")
        if cursor.kind == CursorKind.VAR_DECL:
            self.check_storage(cursor)
        if cursor.kind == CursorKind.CSTYLE_CAST_EXPR and cursor.type.kind == TypeKind.POINTER:
            self.add(cursor, "reinterpret", "a cast to a pointer: use the array's own type")
        if cursor.kind in VARIABLES:
            self.check_type(cursor, cursor.type)
        self.check_std(cursor)
        if cursor.type.get_canonical().kind in FLOATS:
            text = f"{cursor.type.spelling}: use integers (float.hpp has addition and conversions)"
            self.add(cursor, "float", text)

    def check_storage(self, variable: Cursor) -> None:
        """Variables that would be memory between two frames."""
        is_global = variable.semantic_parent.kind in (
            CursorKind.NAMESPACE,
            CursorKind.TRANSLATION_UNIT,
        )
        is_static = variable.storage_class == StorageClass.STATIC
        is_thread = variable.tls_kind != TLSKind.NONE
        constant = element(variable.type.get_canonical()).is_const_qualified()
        if (is_global or is_static or is_thread) and not constant and not is_constexpr(variable):
            text = f"{variable.spelling}: make it a member of the process' state, or const"
            self.add(variable, "static-state", text)

    def check_type(self, variable: Cursor, declared: Type) -> None:
        """What a variable, parameter or field may not be."""
        inner = target(declared)
        if inner.kind in (TypeKind.VARIABLEARRAY, TypeKind.INCOMPLETEARRAY):
            text = f"{variable.spelling}: give the array a constant size"
            self.add(variable, "variable-array", text)
        inner = element(inner)
        if inner.kind == TypeKind.MEMBERPOINTER:
            self.add(variable, "function-pointer", f"{variable.spelling}: select with a switch")
        if inner.kind != TypeKind.POINTER:
            return
        pointee = inner.get_pointee().get_canonical()
        is_array = target(declared).kind == TypeKind.CONSTANTARRAY
        if pointee.kind == TypeKind.FUNCTIONPROTO:
            self.add(variable, "function-pointer", f"{variable.spelling}: select with a switch")
        elif pointee.kind == TypeKind.POINTER or is_array:
            self.add(variable, "pointer", f"{variable.spelling}: use an array of two dimensions")

    def check_std(self, cursor: Cursor) -> None:
        """Uses of the standard library."""
        is_name = cursor.kind.is_reference() or cursor.kind == CursorKind.DECL_REF_EXPR
        named = cursor.referenced if is_name else None
        if named is None or named.kind == CursorKind.NAMESPACE:
            return
        if in_namespace(named, "std") and named.spelling not in STD_TYPES:
            text = f"std::{named.spelling}: use arrays, integers and hls::stream"
            self.add(cursor, "std", text)

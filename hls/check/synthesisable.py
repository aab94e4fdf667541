"""Whether the kernels keep to what a high-level synthesis tool can turn into hardware.

`python hls/check/synthesisable.py` parses every source of hls/src, at every stream width, with the
vendor's headers and __SYNTHESIS__ set, and walks from each top through all that it calls, templates
instantiated. Pragmas are read from the text, since clang does not keep them, and belong to the
innermost loop or function they stand in. Nothing is synthesised: this finds what a tool is known to
reject, or to accept and build otherwise than meant.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from clang.cindex import Cursor, CursorKind, StorageClass, TLSKind, TranslationUnit, Type, TypeKind
from clangtree import (
    FUNCTIONS,
    HLS,
    LOOPS,
    VARIABLES,
    array_fields,
    children,
    dimensions,
    element,
    evaluate,
    first_words,
    in_namespace,
    is_constexpr,
    is_stream,
    operator,
    parse,
    path_of,
    reaches,
    root,
    target,
)
from pragmas import Pragma, faults, read_pragmas, table

LANES = (2, 4, 8, 16)

RULES = {
    "parse": "the source compiles",
    "allocation": "no new, delete, malloc: storage is static in hardware",
    "recursion": "no function calls itself, directly or through others, but in constant expressions",
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
    "pipeline": "a loop is pipelined with II = 1, or unrolled, or part of a pipelined loop",
    "partition": "arrays used in a pipeline are partitioned completely or bound to a memory",
    "dynamic-index": "only memories are indexed by what is not constant after unrolling",
    "pragma": "pragmas are spelled as the vendor documents them",
    "pragma-place": "a pragma stands in a loop, function or top as its kind requires",
    "pragma-variable": "a pragma's variable or port is declared where the pragma stands",
    "stream-depth": "every stream states its depth",
    "stream-access": "streams are only read and written: what tests them depends on timing",
    "region": "a dataflow region declares streams and calls processes, nothing else",
    "region-stream": "a stream has one writer and, later in the region, one reader",
    "process": "a process is a region or a void function whose pipelined loops begin with cycle()",
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
ALLOCATORS = ("malloc", "calloc", "realloc", "free", "alloca", "__builtin_alloca")
STD_TYPES = {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)} | {"size_t"}
FLOATS = (TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.LONGDOUBLE, TypeKind.HALF, TypeKind.FLOAT128)
ASSIGNMENTS = ("=", "*=", "/=", "%=", "+=", "-=", "<<=", ">>=", "&=", "^=", "|=")
PROCESS_MACROS = ("ACTDMA_PROCESS", "ACTDMA_TOP")
STEPS = ("x++", "x--", "++x", "--x")

# Headers of the tree that no synthesis tool sees.
SIMULATION = {"csim.hpp": "the simulation behind the streams, left out under __SYNTHESIS__"}


class Finding(NamedTuple):
    """One place that breaks a rule."""

    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


@dataclass(frozen=True)
class Context:
    """How a function is called: inside a pipelined loop or not, with which parameters constant
    after unrolling and which of them memories (positions)."""

    pipelined: bool = False
    fixed: frozenset[int] = frozenset()
    memories: frozenset[int] = frozenset()


@dataclass
class Scope:
    """What is known on the way through one function."""

    function: Cursor
    pipelined: bool
    fixed: set[int] = field(default_factory=set)  # hashes of variables constant after unrolling


class Checker:
    """Collects findings over the sources below `tree` (include/actdma, src)."""

    def __init__(self, tree: Path):
        self.tree = tree.resolve()
        self.own = {self.tree, HLS}
        self.findings: set[Finding] = set()
        self.reached: set[tuple[Path, int]] = set()
        self.defined: dict[tuple[Path, int], Cursor] = {}

    def report(self, cursor: Cursor, rule: str, text: str) -> None:
        """Note a finding where a cursor stands, if that is in the tree."""
        self.report_line(path_of(cursor), cursor.location.line, rule, text)

    def report_line(self, path: Path | None, line: int, rule: str, text: str) -> None:
        """Note a finding at a line, if that is in the tree."""
        if rule not in RULES:
            raise KeyError(f"no rule {rule!r}")
        if path is not None and path.is_relative_to(self.tree):
            self.findings.add(Finding(path, line, rule, text))

    def check(self, lanes: tuple[int, ...]) -> list[Finding]:
        """All findings, by place."""
        headers = sorted((self.tree / "include/actdma").glob("*.hpp"))
        headers = [path for path in headers if path.name not in SIMULATION]
        sources = sorted((self.tree / "src").glob("*.cpp"))
        everything = "".join(f'#include "{path}"\n' for path in [*headers, *sources])
        for width in lanes:
            unit = self.parse(self.tree / "everything.cpp", width, everything)
            if width == lanes[0]:
                self.scan(unit)
            Walk(self, unit).walk_tops(sources)
        for place in self.defined.keys() - self.reached:
            name = self.defined[place].spelling
            text = f"no top calls {name}: call it, or keep it from __SYNTHESIS__"
            self.report_line(*place, "unreached", text)
        return sorted(self.findings)

    def parse(self, path: Path, lanes: int, text: str | None = None) -> TranslationUnit:
        """A source, with clang's errors as findings."""
        unit = parse(path, lanes, [self.tree / "include", HLS / "include"], text)
        for diagnostic in unit.diagnostics:
            if diagnostic.severity >= diagnostic.Error:
                place = diagnostic.location
                file = Path(place.file.name).resolve() if place.file else path
                self.report_line(file, place.line, "parse", diagnostic.spelling)
        return unit

    # The sources as they are written: all of them, templates whether instantiated or not.

    def scan(self, unit: TranslationUnit) -> None:
        """The rules that need no instantiation, the pragmas, and what is defined."""
        files: dict[Path, list[Cursor]] = {}
        for cursor in unit.cursor.get_children():
            path = path_of(cursor)
            is_ours = path is not None and path.is_relative_to(self.tree)
            if is_ours and path.name not in SIMULATION and not cursor.kind.is_preprocessing():
                files.setdefault(path, []).append(cursor)
        for path, cursors in files.items():
            functions = [found for cursor in cursors for found in self.scan_tree(cursor)]
            self.check_pragmas(path, functions)

    def scan_tree(self, cursor: Cursor) -> Iterator[Cursor]:
        """Check a tree of cursors; the functions defined in it."""
        self.check_node(cursor)
        if cursor.kind in FUNCTIONS and cursor.is_definition():
            yield cursor
            is_method = cursor.kind in (CursorKind.CONSTRUCTOR, CursorKind.DESTRUCTOR)
            if not is_method and not is_constexpr(cursor):
                self.defined[path_of(cursor), cursor.location.line] = cursor
        for child in cursor.get_children():
            yield from self.scan_tree(child)

    def check_pragmas(self, path: Path, functions: list[Cursor]) -> None:
        """Spelling, place and variable of every pragma of a file."""
        for pragma in read_pragmas(path):
            for fault in faults(pragma):
                self.report_line(path, pragma.line, "pragma", fault)
            function = next((f for f in functions if encloses(f, pragma.line)), None)
            if pragma.name not in table():
                continue
            places = table()[pragma.name]["place"]
            place = self.place(function, pragma.line)
            if place not in places:
                text = f"{pragma.name} in {place}: put it in {' or '.join(places)}"
                self.report_line(path, pragma.line, "pragma-place", text)
            elif function is not None:
                self.check_variable(path, pragma, function)

    def place(self, function: Cursor | None, line: int) -> str:
        """What a line of a function belongs to, as the table of pragmas calls it."""
        if function is None:
            return "no function that synthesis sees"
        if any(encloses(loop, line) for loop in loops(function)):
            return "loop"
        return "top" if path_of(function).parent == self.tree / "src" else "function"

    def check_variable(self, path: Path, pragma: Pragma, function: Cursor) -> None:
        """Whether what a pragma names is declared in its function."""
        name = (pragma.variable or pragma.options.get("port", "")).split(".")[0].split("[")[0]
        declared = {c.spelling for c in function.walk_preorder() if c.kind in VARIABLES}
        if name and name not in declared | {"return"}:
            text = f"{pragma.name}: nothing called {name} is declared in {function.spelling}"
            self.report_line(path, pragma.line, "pragma-variable", text)

    # Rules about one cursor, whatever surrounds it.

    def check_node(self, cursor: Cursor) -> None:
        """The rules that look at one cursor alone."""
        if cursor.kind in SYNTAX:
            self.report(cursor, *SYNTAX[cursor.kind])
        if cursor.kind == CursorKind.CXX_METHOD and cursor.is_virtual_method():
            self.report(cursor, "virtual", f"{cursor.spelling}: make the type a template parameter")
        if cursor.kind == CursorKind.CXX_BASE_SPECIFIER and first_words(cursor, 1) == ["virtual"]:
            self.report(cursor, "virtual", "a virtual base: make the type a template parameter")
        if cursor.kind == CursorKind.VAR_DECL:
            self.check_storage(cursor)
        if cursor.kind == CursorKind.CSTYLE_CAST_EXPR and cursor.type.kind == TypeKind.POINTER:
            self.report(cursor, "reinterpret", "a cast to a pointer: use the array's own type")
        if cursor.kind in VARIABLES:
            self.check_type(cursor, cursor.type)
        self.check_std(cursor)
        if cursor.type.get_canonical().kind in FLOATS:
            text = f"{cursor.type.spelling}: use integers (float.hpp has addition and conversions)"
            self.report(cursor, "float", text)

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
            self.report(variable, "static-state", text)

    def check_type(self, variable: Cursor, declared: Type) -> None:
        """What a variable, parameter or field may not be."""
        inner = target(declared)
        if inner.kind in (TypeKind.VARIABLEARRAY, TypeKind.INCOMPLETEARRAY):
            text = f"{variable.spelling}: give the array a constant size"
            self.report(variable, "variable-array", text)
        inner = element(inner)
        if inner.kind == TypeKind.MEMBERPOINTER:
            self.report(variable, "function-pointer", f"{variable.spelling}: select with a switch")
        if inner.kind != TypeKind.POINTER:
            return
        pointee = inner.get_pointee().get_canonical()
        is_array = target(declared).kind == TypeKind.CONSTANTARRAY
        if pointee.kind == TypeKind.FUNCTIONPROTO:
            self.report(variable, "function-pointer", f"{variable.spelling}: select with a switch")
        elif pointee.kind == TypeKind.POINTER or is_array:
            self.report(variable, "pointer", f"{variable.spelling}: use an array of two dimensions")

    def check_std(self, cursor: Cursor) -> None:
        """Uses of the standard library."""
        named = cursor.referenced if cursor.kind.is_reference() or is_name(cursor) else None
        if named is None or named.kind == CursorKind.NAMESPACE:
            return
        if in_namespace(named, "std") and named.spelling not in STD_TYPES:
            text = f"std::{named.spelling}: use arrays, integers and hls::stream"
            self.report(cursor, "std", text)


class Walk:
    """The way from the tops of one source through all that they call, at one stream width."""

    def __init__(self, checker: Checker, unit: TranslationUnit):
        self.checker = checker
        self.report = checker.report
        self.unit = unit
        self.seen: set[tuple[str, Context]] = set()
        self.calling: list[Cursor] = []  # the functions on the way here
        self.memories: set[int] = set()  # hashes of what is bound to a memory
        self.tokens: set[str] = set()  # what lies on streams, spelled
        self.directions: dict[tuple[str, int], set[str]] = {}
        self.macros = {
            (path_of(cursor), cursor.location.line)
            for cursor in unit.cursor.get_children()
            if cursor.kind == CursorKind.MACRO_INSTANTIATION
            and cursor.spelling in PROCESS_MACROS
        }

    def walk_tops(self, sources: list[Path]) -> None:
        """Every function that a source defines is a top."""
        self.find_tokens()
        for cursor in self.unit.cursor.get_children():
            is_top = cursor.kind == CursorKind.FUNCTION_DECL and cursor.is_definition()
            if is_top and path_of(cursor) in sources:
                self.walk(cursor, Context())

    def find_tokens(self) -> None:
        """Types that travel on streams: the tool packs them into one word as they are."""
        pending = [c for c in self.unit.cursor.get_children() if c.kind in FUNCTIONS]
        visited = set()
        while pending:
            function = pending.pop()
            if function.get_usr() in visited or not self.is_own(function):
                continue
            visited.add(function.get_usr())
            for cursor in function.walk_preorder():
                if cursor.kind in VARIABLES and is_stream(cursor.type):
                    self.add_token(target(cursor.type).get_template_argument_type(0))
                if cursor.kind == CursorKind.CALL_EXPR and cursor.referenced is not None:
                    pending.append(cursor.referenced)

    def add_token(self, token: Type) -> None:
        """A token type and the types inside it."""
        canonical = element(token.get_canonical())
        if canonical.kind == TypeKind.RECORD and canonical.spelling not in self.tokens:
            self.tokens.add(canonical.spelling)
            for member in canonical.get_fields():
                self.add_token(member.type)

    def is_own(self, cursor: Cursor) -> bool:
        """Whether a cursor stands in our sources (the vendor's headers are not looked into)."""
        path = path_of(cursor)
        is_vendor = path is not None and path.is_relative_to(HLS / "check/vendor")
        roots = (self.checker.tree, HLS / "include", HLS / "src")
        return path is not None and not is_vendor and any(path.is_relative_to(r) for r in roots)

    def walk(self, function: Cursor, context: Context) -> None:
        """Check a function as it is called, and what it calls."""
        usr = function.get_usr()
        self.checker.reached.add((path_of(function), function.location.line))
        if (usr, context) in self.seen:
            return
        self.seen.add((usr, context))
        self.calling.append(function)
        scope = Scope(function, context.pipelined)
        for position, parameter in enumerate(function.get_arguments()):
            self.checker.check_type(parameter, parameter.type)
            if position in context.fixed:
                scope.fixed.add(parameter.hash)
            if position in context.memories:
                self.memories.add(parameter.hash)
        self.bind_memories(function)
        if self.is_region(function):
            self.check_region(function)
        for child in function.get_children():
            if child.kind == CursorKind.COMPOUND_STMT:
                self.visit(child, scope)
        self.calling.pop()

    def bind_memories(self, function: Cursor) -> None:
        """Note the arrays that pragmas of a function make memories."""
        for pragma in attached(function):
            is_memory = pragma.name == "BIND_STORAGE"
            is_bus = pragma.name == "INTERFACE" and pragma.options.get("mode") == "m_axi"
            name = pragma.variable if is_memory else pragma.options.get("port", "")
            declared = find_variable(function, name) if is_memory or is_bus else None
            if declared is not None:
                self.memories.add(declared.hash)

    # Statements and expressions.

    def visit(self, cursor: Cursor, scope: Scope) -> None:
        """Check a cursor and what is below it."""
        self.checker.check_node(cursor)
        visitor = self.visitors().get(cursor.kind)
        if visitor is not None:
            visitor(cursor, scope)
        elif not is_name(cursor) and not cursor.kind.is_reference():
            self.visit_children(cursor, scope)

    def visitors(self) -> dict[CursorKind, Callable[[Cursor, Scope], None]]:
        """What is done with a cursor of a kind."""
        return {
            CursorKind.FOR_STMT: self.visit_loop,
            CursorKind.WHILE_STMT: self.visit_loop,
            CursorKind.DO_STMT: self.visit_loop,
            CursorKind.IF_STMT: self.visit_if,
            CursorKind.VAR_DECL: self.visit_variable,
            CursorKind.CALL_EXPR: self.visit_call,
            CursorKind.ARRAY_SUBSCRIPT_EXPR: self.visit_subscript,
            CursorKind.BINARY_OPERATOR: self.visit_operator,
            CursorKind.COMPOUND_ASSIGNMENT_OPERATOR: self.visit_operator,
            CursorKind.UNARY_OPERATOR: self.visit_operator,
            CursorKind.STATIC_ASSERT: lambda cursor, scope: None,
        }

    def visit_children(self, cursor: Cursor, scope: Scope) -> None:
        """Check what is below a cursor."""
        for child in cursor.get_children():
            self.visit(child, scope)

    def visit_if(self, cursor: Cursor, scope: Scope) -> None:
        """The condition of `if constexpr` is no hardware."""
        parts = children(cursor)
        if first_words(cursor, 2) == ["if", "constexpr"]:
            parts = parts[1:]
        for part in parts:
            self.visit(part, scope)

    def visit_variable(self, variable: Cursor, scope: Scope) -> None:
        """Types, arrays and streams; what is constant after unrolling."""
        for path, array in array_fields(variable.type, variable.spelling):
            self.check_partition(variable, path, array, scope)
        if is_stream(variable.type):
            self.check_depth(variable, scope.function)
        elif variable.type.get_canonical().kind == TypeKind.RECORD:
            self.check_fields(variable.type)
        value = initialiser(variable)
        constant = is_constexpr(variable)
        if value is not None and not constant:
            self.visit(value, scope)
            constant = variable.type.is_const_qualified() and self.is_fixed(value, scope)
        if constant:
            scope.fixed.add(variable.hash)

    def check_fields(self, declared: Type) -> None:
        """Types of a struct's members."""
        for member in declared.get_canonical().get_fields():
            if self.is_own(member):
                self.checker.check_node(member)
                if element(member.type.get_canonical()).kind == TypeKind.RECORD:
                    self.check_fields(element(member.type.get_canonical()))

    def check_partition(self, variable: Cursor, path: str, array: Type, scope: Scope) -> None:
        """Arrays of a pipeline are registers or memories, as a pragma says."""
        kind = element(variable.type.get_canonical())
        constant = variable.type.is_const_qualified() or kind.is_const_qualified()
        if constant or kind.spelling.removeprefix("const ") in self.tokens:
            return
        if kind.kind == TypeKind.RECORD and not self.is_own(kind.get_declaration()):
            return
        pragmas = [p for p in attached(scope.function) if p.variable == path]
        if any(pragma.name == "BIND_STORAGE" for pragma in pragmas):
            return
        whole = [
            p
            for p in pragmas
            if p.name == "ARRAY_PARTITION" and p.options.get("type") == "complete"
        ]
        dims = {p.options.get("dim", "1") for p in whole}
        if "0" in dims or len(dims) == dimensions(array):
            return
        text = (
            f"{path}: add ARRAY_PARTITION variable = {path} type = complete"
            f"{' dim = 0' if dimensions(array) > 1 else ''}, or BIND_STORAGE for a memory"
        )
        self.report(variable, "partition", text)

    def visit_call(self, call: Cursor, scope: Scope) -> None:
        """What a call leads to."""
        self.visit_children(call, scope)
        callee = call.referenced
        if callee is None or callee.kind not in FUNCTIONS:
            if callee is not None and callee.kind in VARIABLES:
                text = f"a call through {callee.spelling}: select with a switch"
                self.report(call, "function-pointer", text)
            return
        arguments = list(call.get_arguments())
        if is_stream_method(callee):
            if callee.spelling not in ("read", "write"):
                text = f"{callee.spelling}(): read or write, blocking"
                self.report(call, "stream-access", text)
        elif callee.spelling in ALLOCATORS:
            self.report(call, "allocation", f"{callee.spelling}: declare an array of constant size")
        elif self.is_own(callee):
            self.enter(call, callee, arguments, scope)
        elif self.is_foreign(callee):
            text = f"{callee.spelling} is not ours nor the vendor's: write it here"
            self.report(call, "external-call", text)

    def enter(self, call: Cursor, callee: Cursor, arguments: list[Cursor], scope: Scope) -> None:
        """Follow a call of our own function."""
        if callee.location == callee.semantic_parent.location:
            return  # an implicit member
        definition = callee.get_definition()
        if definition is None:
            text = f"{callee.spelling} has no body in this source: define it in a header"
            self.report(call, "external-call", text)
            return
        if definition in self.calling:
            caller = self.calling[max(self.calling.index(definition) - 1, 0)].spelling
            text = (
                f"{callee.spelling} calls itself (called from {caller}): write a loop of constant "
                "bounds, or make the result a constexpr variable"
            )
            self.report(call, "recursion", text)
            return
        parameters = list(definition.get_arguments())
        if len(parameters) != len(arguments):  # an operator's object is an argument of the call
            arguments = arguments[len(arguments) - len(parameters) :]
        fixed = [i for i, argument in enumerate(arguments) if self.is_fixed(argument, scope)]
        memories = [i for i, argument in enumerate(arguments) if self.is_memory(argument)]
        context = Context(scope.pipelined, frozenset(fixed), frozenset(memories))
        self.walk(definition, context)

    def is_foreign(self, function: Cursor) -> bool:
        """Whether a function is neither ours nor the vendor's, nor built in."""
        path = path_of(function)
        if path is None:
            return True  # the compiler's own, such as __builtin_popcount
        vendor = ("ap_", "hls_", "etc/")
        is_vendor = "ap_types" in path.parts or path.is_relative_to(HLS / "tb/compat")
        return not (is_vendor or path.name.startswith(vendor))

    def is_memory(self, expression: Cursor) -> bool:
        """Whether an array is bound to a memory."""
        declared = root(expression)
        return declared is not None and declared.hash in self.memories

    def visit_subscript(self, cursor: Cursor, scope: Scope) -> None:
        """An index that is not constant after unrolling makes a multiplexer of a register array."""
        self.visit_children(cursor, scope)
        array, index = children(cursor)
        if not self.is_fixed(index, scope) and not self.is_memory(array):
            declared = root(array)
            text = (
                f"{declared.spelling if declared else 'array'}: index by an unrolled loop's variable "
                "and select, or bind the array to a memory with BIND_STORAGE"
            )
            self.report(cursor, "dynamic-index", text)

    def visit_operator(self, cursor: Cursor, scope: Scope) -> None:
        """Division, and arithmetic on pointers."""
        self.visit_children(cursor, scope)
        sign, parts = operator(cursor), children(cursor)
        if sign in ("/", "%", "/=", "%=") and not self.is_fixed(parts[1], scope):
            text = "the divisor is not constant: use shifts or a table of reciprocals"
            self.report(cursor, "division", text)
        moves = sign in (*STEPS, "+=", "-=") or (
            sign in ("+", "-")
            and len(parts) == 2
            and not all(self.is_fixed(p, scope) for p in parts if p.type.kind != TypeKind.POINTER)
        )
        if cursor.type.kind == TypeKind.POINTER and moves and not self.is_memory(parts[0]):
            text = "a pointer that moves: index by an unrolled loop's variable"
            self.report(cursor, "dynamic-index", text)

    # Constants.

    def is_fixed(self, expression: Cursor, scope: Scope) -> bool:
        """Whether an expression is constant once loops are unrolled and functions inlined."""
        if evaluate(expression) is not None:
            return True
        kind = expression.kind
        if kind == CursorKind.DECL_REF_EXPR and children(expression) == []:
            named = expression.referenced
            is_value = named is not None and named.kind in VARIABLES
            return is_value and (named.hash in scope.fixed or is_constant(named))
        if kind in (CursorKind.UNARY_OPERATOR, CursorKind.BINARY_OPERATOR):
            if operator(expression) in (*STEPS, *ASSIGNMENTS, "*"):
                return kind == CursorKind.BINARY_OPERATOR and self.are_fixed(expression, scope) and (
                    operator(expression) == "*"
                )
            return self.are_fixed(expression, scope)
        if kind == CursorKind.CALL_EXPR:
            arguments = list(expression.get_arguments())
            return bool(arguments) and all(self.is_fixed(a, scope) for a in arguments)
        composed = (
            CursorKind.UNEXPOSED_EXPR,
            CursorKind.PAREN_EXPR,
            CursorKind.CONDITIONAL_OPERATOR,
            CursorKind.CSTYLE_CAST_EXPR,
            CursorKind.CXX_STATIC_CAST_EXPR,
            CursorKind.CXX_FUNCTIONAL_CAST_EXPR,
            CursorKind.ARRAY_SUBSCRIPT_EXPR,
        )
        return kind in composed and self.are_fixed(expression, scope)

    def are_fixed(self, expression: Cursor, scope: Scope) -> bool:
        """Whether all parts of an expression are constant."""
        parts = [c for c in expression.get_children() if not c.kind.is_reference()]
        return bool(parts) and all(self.is_fixed(part, scope) for part in parts)

    # Loops.

    def visit_loop(self, loop: Cursor, scope: Scope) -> None:
        """Bounds, pipelining and unrolling of a loop, then its body."""
        pragmas = {pragma.name: pragma for pragma in attached(loop)}
        variable = self.counter(loop, scope)
        self.check_pipeline(loop, pragmas, scope)
        self.check_bound(loop, pragmas, variable is not None, scope)
        whole = "UNROLL" in pragmas and "factor" not in pragmas["UNROLL"].options
        inner = Scope(scope.function, scope.pipelined or "PIPELINE" in pragmas, scope.fixed)
        if variable is not None and (whole or scope.pipelined):
            inner.fixed.add(variable.hash)
        self.visit_children(loop, inner)

    def check_pipeline(self, loop: Cursor, pragmas: dict[str, Pragma], scope: Scope) -> None:
        """How a loop is turned into hardware."""
        pipeline = pragmas.get("PIPELINE")
        if scope.pipelined:
            if pipeline is not None:
                self.report(loop, "pipeline", "a pipelined loop in a pipelined one: UNROLL it")
        elif pipeline is None and "UNROLL" not in pragmas:
            self.report(loop, "pipeline", "add PIPELINE II = 1, or UNROLL")
        elif pipeline is not None and (pipeline.options.get("II") != "1" or pipeline.flags):
            self.report(loop, "pipeline", "give the pipeline II = 1 and nothing else")

    def check_bound(
        self, loop: Cursor, pragmas: dict[str, Pragma], counted: bool, scope: Scope
    ) -> None:
        """How often a loop runs."""
        if counted:
            return
        if "PIPELINE" not in pragmas or "UNROLL" in pragmas or scope.pipelined:
            text = "not a constant number of turns: for (int i = constant; i < constant; i++)"
            self.report(loop, "loop-bound", text)
        elif "LOOP_TRIPCOUNT" not in pragmas:
            text = "state the longest run: LOOP_TRIPCOUNT min = ... max = ..."
            self.report(loop, "loop-bound", text)

    def counter(self, loop: Cursor, scope: Scope) -> Cursor | None:
        """The variable of a loop with a constant trip count, None for any other loop."""
        parts = children(loop)
        if loop.kind != CursorKind.FOR_STMT or len(parts) != 4:
            return None
        begin, condition, step, body = parts
        declared = [c for c in begin.get_children() if c.kind == CursorKind.VAR_DECL]
        if len(declared) != 1 or operator(condition) not in ("<", "<=", ">", ">=", "!="):
            return None
        variable, value = declared[0], initialiser(declared[0])
        left, right = children(condition)
        moves = operator(step) != "" and reaches(children(step)[0], variable)
        if value is None or not moves or not reaches(left, variable):
            return None
        if not (self.is_fixed(value, scope) and self.is_fixed(right, scope)):
            return None
        heads = steps_towards(condition, step) and self.is_fixed_step(step, scope)
        return variable if heads and not changes(body, variable) else None

    def is_fixed_step(self, step: Cursor, scope: Scope) -> bool:
        """Whether a loop's variable moves by a constant."""
        return operator(step) in STEPS or self.is_fixed(children(step)[1], scope)

    # Streams, regions, processes.

    def check_depth(self, variable: Cursor, function: Cursor) -> None:
        """A stream's depth, as its type or a pragma states it."""
        stated = target(variable.type).spelling.rpartition(",")[2].strip(" >")
        pragmas = [p for p in attached(function) if p.name == "STREAM"]
        if not stated.isdigit() and all(p.variable != variable.spelling for p in pragmas):
            text = f"{variable.spelling}: declare it as Stream<T, depth>"
            self.report(variable, "stream-depth", text)

    def is_region(self, function: Cursor) -> bool:
        """Whether a function is a dataflow region."""
        uses_macro = any(
            path == path_of(function) and encloses(function, line)
            for path, line in self.macros
        )
        return uses_macro or any(pragma.name == "DATAFLOW" for pragma in attached(function))

    def check_region(self, region: Cursor) -> None:
        """The form of a region, its processes and streams."""
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
                text = f"{port.spelling} is used by more than one process: add a process that splits"
                self.report(port, "region-stream", text)

    def processes(self, statement: Cursor) -> Iterator[Cursor]:
        """The calls of processes in a statement of a region."""
        is_marked = (path_of(statement), statement.location.line) in self.macros
        if statement.kind == CursorKind.CALL_EXPR and is_marked:
            yield statement
        elif statement.kind == CursorKind.IF_STMT and evaluate(children(statement)[0]) is not None:
            for branch in children(statement)[1:]:
                yield from self.processes(branch)
        elif statement.kind == CursorKind.COMPOUND_STMT:
            for inner in statement.get_children():
                yield from self.processes(inner)
        elif statement.kind == CursorKind.DECL_STMT:
            for declared in statement.get_children():
                if declared.kind != CursorKind.STATIC_ASSERT and not is_stream(declared.type):
                    text = f"{declared.spelling}: a region declares only streams"
                    self.report(declared, "region", text)
        elif statement.kind not in (CursorKind.NULL_STMT, CursorKind.STATIC_ASSERT):
            text = "move this into a process; a region calls ACTDMA_PROCESS(...) and no more"
            self.report(statement, "region", text)

    def check_process(self, call: Cursor, process: Cursor) -> None:
        """What may be called through ACTDMA_PROCESS."""
        if process.result_type.kind != TypeKind.VOID:
            self.report(call, "process", f"{process.spelling} returns a value: write to a stream")
        if self.is_region(process):
            return
        pipelined = [
            loop for loop in loops(process) if any(p.name == "PIPELINE" for p in attached(loop))
        ]
        if not pipelined:
            text = f"{process.spelling} has no pipelined loop: a process is one, or a region"
            self.report(call, "process", text)
        for loop in pipelined:
            body = next(c for c in loop.get_children() if c.kind == CursorKind.COMPOUND_STMT)
            first = next(iter(body.get_children()), None)
            if first is None or first.spelling != "cycle":
                self.report(loop, "process", "begin the pipelined loop with cycle();")

    def check_stream(self, stream: Cursor, calls: list[Cursor]) -> None:
        """One writer, then one reader."""
        uses = [(i, use) for i, call in enumerate(calls) for use in self.uses(call, stream)]
        writers = [i for i, use in uses if use == "write"]
        readers = [i for i, use in uses if use == "read"]
        if len(writers) != 1 or len(readers) != 1:
            text = f"{stream.spelling} has {len(writers)} writers and {len(readers)} readers: one each"
            self.report(stream, "region-stream", text)
        elif writers >= readers:
            text = f"{stream.spelling} is read before it is written: no feedback in a region"
            self.report(stream, "region-stream", text)

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
                if is_stream_method(call.referenced) and reaches(receiver(call), parameter):
                    self.directions[key].add(call.referenced.spelling.removesuffix("_nb"))
                elif self.is_own(call.referenced):
                    self.directions[key].update(self.uses(call, parameter))
        return self.directions[key]


def is_name(cursor: Cursor) -> bool:
    """Whether a cursor names a variable, member or function and has no code below it."""
    return cursor.kind == CursorKind.DECL_REF_EXPR


def is_constant(variable: Cursor) -> bool:
    """Whether a variable outside all functions is constant."""
    return element(variable.type.get_canonical()).is_const_qualified() and (
        variable.semantic_parent.kind not in FUNCTIONS
    )


def is_stream_method(function: Cursor) -> bool:
    """Whether a function is a method of hls::stream (its constructors aside)."""
    parent = function.semantic_parent
    return (
        function.kind == CursorKind.CXX_METHOD
        and parent.spelling == "stream"
        and in_namespace(parent, "hls")
    )


def receiver(call: Cursor) -> Cursor:
    """The object a method is called on."""
    member = children(call)[0]
    inner = children(member)
    return inner[0] if inner else member


def initialiser(variable: Cursor) -> Cursor | None:
    """The expression a variable starts with, not its type's parts."""
    parts = [c for c in variable.get_children() if c.kind.is_expression()]
    if not parts or parts[-1].extent.start.offset < variable.location.offset:
        return None
    is_array = variable.type.get_canonical().kind == TypeKind.CONSTANTARRAY
    listed = (CursorKind.INIT_LIST_EXPR, CursorKind.CALL_EXPR)
    return None if is_array and parts[-1].kind not in listed else parts[-1]


def steps_towards(condition: Cursor, step: Cursor) -> bool:
    """Whether a loop's variable moves to its bound."""
    up = operator(step) in ("x++", "++x", "+=")
    down = operator(step) in ("x--", "--x", "-=")
    sign = operator(condition)
    return (up and sign in ("<", "<=")) or (down and sign in (">", ">="))


def changes(body: Cursor, variable: Cursor) -> bool:
    """Whether a loop's body assigns to its variable."""
    return any(
        operator(cursor) in (*ASSIGNMENTS, *STEPS) and reaches(children(cursor)[0], variable)
        for cursor in body.walk_preorder()
        if operator(cursor) and cursor.kind != CursorKind.UNARY_OPERATOR or operator(cursor) in STEPS
    )


def encloses(cursor: Cursor, line: int) -> bool:
    """Whether a line lies in a function or loop."""
    return cursor.extent.start.line <= line <= cursor.extent.end.line


def loops(cursor: Cursor) -> list[Cursor]:
    """The loops in a function or loop, itself left out."""
    return [c for c in cursor.walk_preorder() if c.kind in LOOPS and c != cursor]


def attached(cursor: Cursor) -> list[Pragma]:
    """The pragmas of a loop itself, or of a function with those in its loops."""
    path = path_of(cursor)
    found = [p for p in read_pragmas(path) if encloses(cursor, p.line)] if path else []
    if cursor.kind in LOOPS:
        inner = loops(cursor)
        found = [p for p in found if not any(encloses(loop, p.line) for loop in inner)]
    return found


def find_variable(function: Cursor, path: str) -> Cursor | None:
    """The declaration that a pragma's `variable.member` leads to in a function."""
    name, *members = path.split(".")
    found = next(
        (c for c in function.walk_preorder() if c.kind in VARIABLES and c.spelling == name), None
    )
    for member in members:
        if found is None:
            return None
        fields = target(found.type).get_fields()
        found = next((c for c in fields if c.spelling == member), None)
    return found


def main() -> int:
    """Check a tree; the exit status is 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tree", nargs="?", type=Path, default=HLS, help="directory of include, src")
    parser.add_argument("--lanes", type=int, nargs="*", default=LANES, help="stream widths")
    parser.add_argument("--rules", action="store_true", help="list the rules and exit")
    options = parser.parse_args()
    if options.rules:
        print("\n".join(f"{name}: {what}" for name, what in RULES.items()))
        return 0
    findings = Checker(options.tree).check(tuple(options.lanes))
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings, {len(RULES)} rules, lanes {options.lanes}", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

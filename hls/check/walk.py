"""The way from the tops through all that they call, templates instantiated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from clang.cindex import Cursor, CursorKind, TranslationUnit, Type, TypeKind
from clangtree import (
    FUNCTIONS,
    VARIABLES,
    array_fields,
    built,
    children,
    declarations,
    dimensions,
    element,
    evaluate,
    is_constexpr,
    is_stream,
    is_stream_method,
    is_top,
    loops,
    operator,
    path_of,
    reaches,
    root,
    target,
)
from pragmas import Pragma, attached
from regions import Regions
from rules import Report

ALLOCATORS = ("malloc", "calloc", "realloc", "free", "alloca", "__builtin_alloca")
ASSIGNMENTS = ("=", "*=", "/=", "%=", "+=", "-=", "<<=", ">>=", "&=", "^=", "|=")
STEPS = ("x++", "x--", "++x", "--x")
COMPOSED = (
    CursorKind.UNEXPOSED_EXPR,
    CursorKind.PAREN_EXPR,
    CursorKind.UNARY_OPERATOR,
    CursorKind.BINARY_OPERATOR,
    CursorKind.CONDITIONAL_OPERATOR,
    CursorKind.CSTYLE_CAST_EXPR,
    CursorKind.CXX_STATIC_CAST_EXPR,
    CursorKind.CXX_FUNCTIONAL_CAST_EXPR,
    CursorKind.ARRAY_SUBSCRIPT_EXPR,
)

# Options and flags of a pipeline: one that flushes, whatever the tool would choose.
FLUSHING = ({"II": "1", "style": "flp"}, ())


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


class Walk:
    """The functions reached from the tops, at one stream width, each as it is called."""

    def __init__(self, report: Report, unit: TranslationUnit) -> None:
        self.report = report
        self.unit = unit
        self.regions = Regions(report, unit)
        self.reached: set[tuple[Path, int]] = set()  # where the functions met are defined
        self.seen: set[tuple[str, Context]] = set()
        self.calling: list[Cursor] = []  # the functions on the way here
        self.memories: set[int] = set()  # hashes of what is bound to a memory
        self.tokens: set[str] = set()  # types that lie on streams, spelled

    def walk_tops(self, sources: list[Path]) -> None:
        """Every function that a source defines, but static ones, is a top."""
        self.find_tokens()
        for cursor in declarations(self.unit.cursor):
            if is_top(cursor) and path_of(cursor) in sources:
                self.check_ports(cursor)
                self.walk(cursor, Context())

    def check_ports(self, top: Cursor) -> None:
        """A port without a protocol of its own gets a default that differs between flows."""
        stated = {p.options.get("port") for p in attached(top) if p.name == "INTERFACE"}
        for port in [parameter.spelling for parameter in top.get_arguments()] + ["return"]:
            if port not in stated:
                text = f"{top.spelling}: state INTERFACE mode = ... port = {port}"
                self.report.add(top, "interface", text)

    def find_tokens(self) -> None:
        """Types that travel on streams: the tool packs them into one word as they are."""
        pending = [c for c in declarations(self.unit.cursor) if c.kind in FUNCTIONS]
        visited = set()
        while pending:
            function = pending.pop()
            if function.get_usr() in visited or not self.report.is_own(function):
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

    def walk(self, function: Cursor, context: Context) -> None:
        """Check a function as it is called, and what it calls."""
        usr = function.get_usr()
        self.reached.add((path_of(function), function.location.line))
        if (usr, context) in self.seen:
            return
        self.seen.add((usr, context))
        self.calling.append(function)
        scope = Scope(function, context.pipelined)
        for position, parameter in enumerate(function.get_arguments()):
            self.report.check_type(parameter, parameter.type)
            if position in context.fixed:
                scope.fixed.add(parameter.hash)
            if position in context.memories:
                self.memories.add(parameter.hash)
        self.bind_memories(function)
        if self.regions.includes(function):
            self.regions.check(function)
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
        self.report.check_node(cursor)
        visitor = self.visitors().get(cursor.kind)
        if visitor is not None:
            visitor(cursor, scope)
        elif cursor.kind != CursorKind.DECL_REF_EXPR and not cursor.kind.is_reference():
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
        """What is built of an if."""
        for part in built(cursor):
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
            if self.report.is_own(member):
                self.report.check_node(member)
                if element(member.type.get_canonical()).kind == TypeKind.RECORD:
                    self.check_fields(element(member.type.get_canonical()))

    def check_partition(self, variable: Cursor, path: str, array: Type, scope: Scope) -> None:
        """Arrays of a pipeline are registers or memories, as a pragma says."""
        kind = element(variable.type.get_canonical())
        constant = variable.type.is_const_qualified() or kind.is_const_qualified()
        is_token = kind.spelling in self.tokens and path != variable.spelling
        if constant or is_token:
            return
        if kind.kind == TypeKind.RECORD and not self.report.is_own(kind.get_declaration()):
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
        self.report.add(variable, "partition", text)

    def visit_call(self, call: Cursor, scope: Scope) -> None:
        """What a call leads to."""
        self.visit_children(call, scope)
        callee = call.referenced
        if callee is None or callee.kind not in FUNCTIONS:
            if callee is not None and callee.kind in VARIABLES:
                text = f"a call through {callee.spelling}: select with a switch"
                self.report.add(call, "function-pointer", text)
            return
        arguments = list(call.get_arguments())
        if is_stream_method(callee):
            if callee.spelling not in ("read", "write"):
                text = f"{callee.spelling}(): read or write, blocking"
                self.report.add(call, "stream-access", text)
        elif callee.spelling in ALLOCATORS:
            self.report.add(
                call, "allocation", f"{callee.spelling}: declare an array of constant size"
            )
        elif self.report.is_own(callee):
            self.enter(call, callee, arguments, scope)
        elif self.is_foreign(callee):
            text = f"{callee.spelling} is not ours nor the vendor's: write it here"
            self.report.add(call, "external-call", text)

    def enter(self, call: Cursor, callee: Cursor, arguments: list[Cursor], scope: Scope) -> None:
        """Follow a call of our own function."""
        if (
            callee.kind != CursorKind.FUNCTION_DECL
            and callee.location == callee.semantic_parent.location
        ):
            return  # an implicit member
        definition = callee.get_definition()
        if definition is None:
            text = f"{callee.spelling} has no body in this source: define it in a header"
            self.report.add(call, "external-call", text)
            return
        if definition in self.calling:
            caller = self.calling[max(self.calling.index(definition) - 1, 0)].spelling
            text = (
                f"{callee.spelling} calls itself (called from {caller}): write a loop of constant "
                "bounds, or make the result a constexpr variable"
            )
            self.report.add(call, "recursion", text)
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
        return not ("ap_types" in path.parts or path.name.startswith(vendor))

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
                f"{declared.spelling if declared else 'array'}: index by an unrolled loop's "
                "variable and select, or bind the array to a memory with BIND_STORAGE"
            )
            self.report.add(cursor, "dynamic-index", text)

    def visit_operator(self, cursor: Cursor, scope: Scope) -> None:
        """Division, and arithmetic on pointers."""
        self.visit_children(cursor, scope)
        sign, parts = operator(cursor), children(cursor)
        if sign in ("/", "%", "/=", "%=") and not self.is_fixed(parts[1], scope):
            text = "the divisor is not constant: use shifts or a table of reciprocals"
            self.report.add(cursor, "division", text)
        moves = sign in (*STEPS, "+=", "-=") or (
            sign in ("+", "-")
            and len(parts) == 2
            and not all(self.is_fixed(p, scope) for p in parts if p.type.kind != TypeKind.POINTER)
        )
        if cursor.type.kind == TypeKind.POINTER and moves and not self.is_memory(parts[0]):
            text = "a pointer that moves: index by an unrolled loop's variable"
            self.report.add(cursor, "dynamic-index", text)

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
        if operator(expression) in (*STEPS, *ASSIGNMENTS):
            return False
        if kind == CursorKind.CALL_EXPR:
            arguments = list(expression.get_arguments())
            return bool(arguments) and all(self.is_fixed(a, scope) for a in arguments)
        return kind in COMPOSED and self.are_fixed(expression, scope)

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
        """How a loop is turned into hardware. One around a pipelined loop may stay as it is."""
        pipeline = pragmas.get("PIPELINE")
        if scope.pipelined:
            if pipeline is not None:
                self.report.add(loop, "pipeline", "a pipelined loop in a pipelined one: UNROLL it")
        elif pipeline is None and "UNROLL" not in pragmas and not has_pipeline(loop):
            self.report.add(loop, "pipeline", "add PIPELINE II = 1 style = flp, or UNROLL")
        elif pipeline is not None and (pipeline.options, pipeline.flags) != FLUSHING:
            text = "give the pipeline II = 1 style = flp and nothing else"
            self.report.add(loop, "pipeline", text)

    def check_bound(
        self, loop: Cursor, pragmas: dict[str, Pragma], counted: bool, scope: Scope
    ) -> None:
        """How often a loop runs."""
        if counted:
            return
        is_loop = "PIPELINE" in pragmas or has_pipeline(loop)
        if not is_loop or "UNROLL" in pragmas or scope.pipelined:
            text = "not a constant number of turns: for (int i = constant; i < constant; i++)"
            self.report.add(loop, "loop-bound", text)
        elif "LOOP_TRIPCOUNT" not in pragmas:
            text = "state the longest run: LOOP_TRIPCOUNT min = ... max = ..."
            self.report.add(loop, "loop-bound", text)

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
        by_constant = operator(step) in STEPS or self.is_fixed(children(step)[1], scope)
        ends = by_constant and steps_towards(condition, step, value)
        return variable if ends and not changes(body, variable) else None

    # Streams.

    def check_depth(self, variable: Cursor, function: Cursor) -> None:
        """A stream's depth, as its type or a pragma states it."""
        stated = target(variable.type).spelling.rpartition(",")[2].strip(" >")
        pragmas = [p for p in attached(function) if p.name == "STREAM"]
        if not stated.isdigit() and all(p.variable != variable.spelling for p in pragmas):
            text = f"{variable.spelling}: declare it as Stream<T, depth>"
            self.report.add(variable, "stream-depth", text)


def is_constant(variable: Cursor) -> bool:
    """Whether a variable outside all functions is constant."""
    return element(variable.type.get_canonical()).is_const_qualified() and (
        variable.semantic_parent.kind not in FUNCTIONS
    )


def initialiser(variable: Cursor) -> Cursor | None:
    """The expression a variable starts with, not its type's parts."""
    parts = [c for c in variable.get_children() if c.kind.is_expression()]
    if not parts or parts[-1].extent.start.offset < variable.location.offset:
        return None
    is_array = variable.type.get_canonical().kind == TypeKind.CONSTANTARRAY
    listed = (CursorKind.INIT_LIST_EXPR, CursorKind.CALL_EXPR)
    return None if is_array and parts[-1].kind not in listed else parts[-1]


def steps_towards(condition: Cursor, step: Cursor, start: Cursor) -> bool:
    """Whether a loop's variable moves from `start` to its bound."""
    up = operator(step) in ("x++", "++x", "+=")
    down = operator(step) in ("x--", "--x", "-=")
    if operator(step) in ("*=", "<<="):
        up = (evaluate(start) or 0) > 0
    if operator(step) in ("/=", ">>=") and operator(condition) == ">":
        down = (evaluate(children(condition)[1]) or 0) >= 0
    sign = operator(condition)
    return (up and sign in ("<", "<=")) or (down and sign in (">", ">="))


def has_pipeline(loop: Cursor) -> bool:
    """Whether there is a pipelined loop in a loop."""
    return any(p.name == "PIPELINE" for inner in loops(loop) for p in attached(inner))


def changes(body: Cursor, variable: Cursor) -> bool:
    """Whether a loop's body assigns to its variable."""
    return any(
        operator(cursor) in (*ASSIGNMENTS, *STEPS) and reaches(children(cursor)[0], variable)
        for cursor in body.walk_preorder()
    )


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

"""What the check needs of libclang: parsed sources, constants, operators, types, places."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

from clang.cindex import (
    Cursor,
    CursorKind,
    Index,
    SourceRange,
    StorageClass,
    TranslationUnit,
    Type,
    TypeKind,
    conf,
)

HLS = Path(__file__).resolve().parents[1]
COMPAT = HLS.parent / "host/actdma/emulation/include"

LOOPS = (CursorKind.FOR_STMT, CursorKind.WHILE_STMT, CursorKind.DO_STMT)
FUNCTIONS = (
    CursorKind.FUNCTION_DECL,
    CursorKind.FUNCTION_TEMPLATE,
    CursorKind.CXX_METHOD,
    CursorKind.CONSTRUCTOR,
    CursorKind.DESTRUCTOR,
    CursorKind.CONVERSION_FUNCTION,
)
VARIABLES = (CursorKind.VAR_DECL, CursorKind.PARM_DECL, CursorKind.FIELD_DECL)


def _declare(name: str, result: type, *arguments: type) -> None:
    function = getattr(conf.lib, name)
    function.restype, function.argtypes = result, list(arguments)


class _Ranges(ctypes.Structure):
    """CXSourceRangeList."""

    _fields_ = (("count", ctypes.c_uint), ("ranges", ctypes.POINTER(SourceRange)))


# Functions of libclang 17 and later that its Python binding leaves out.
_declare("clang_Cursor_Evaluate", ctypes.c_void_p, Cursor)
_declare("clang_EvalResult_getKind", ctypes.c_int, ctypes.c_void_p)
_declare("clang_EvalResult_getAsLongLong", ctypes.c_longlong, ctypes.c_void_p)
_declare("clang_EvalResult_dispose", None, ctypes.c_void_p)
_declare("clang_getAllSkippedRanges", ctypes.POINTER(_Ranges), TranslationUnit)
_declare("clang_disposeSourceRangeList", None, ctypes.POINTER(_Ranges))
_declare("clang_getCursorBinaryOperatorKind", ctypes.c_int, Cursor)
_declare("clang_getCursorUnaryOperatorKind", ctypes.c_int, Cursor)

# In the order of clang-c/Index.h: CXBinaryOperatorKind, CXUnaryOperatorKind.
BINARY = [
    "invalid",
    ".*",
    "->*",
    "*",
    "/",
    "%",
    "+",
    "-",
    "<<",
    ">>",
    "<=>",
    "<",
    ">",
    "<=",
    ">=",
    "==",
    "!=",
    "&",
    "^",
    "|",
    "&&",
    "||",
    "=",
    "*=",
    "/=",
    "%=",
    "+=",
    "-=",
    "<<=",
    ">>=",
    "&=",
    "^=",
    "|=",
    ",",
]
UNARY = [
    "invalid",
    "x++",
    "x--",
    "++x",
    "--x",
    "&",
    "*",
    "+",
    "-",
    "~",
    "!",
    "real",
    "imag",
    "extension",
    "co_await",
]


@cache
def vendor_headers() -> Path:
    """Where hls4ml keeps ap_int.h."""
    spec = importlib.util.find_spec("hls4ml")
    if spec is None:
        raise SystemExit("hls4ml is missing: pip install 'actdma[emulation]'")
    return Path(spec.submodule_search_locations[0]) / "templates/vivado/ap_types"


@cache
def compiler_headers() -> Path:
    """The compiler's own headers (stddef.h), which the libclang package leaves out."""
    command = [os.environ.get("CXX", "g++"), "-print-file-name=include"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


def parse(path: Path, text: str, macros: tuple[str, ...], include: list[Path]) -> TranslationUnit:
    """A text as the source `path`, as a synthesis tool sees it with these macros set."""
    system = [HLS / "check/vendor", vendor_headers(), COMPAT, compiler_headers()]
    arguments = ["-xc++", "-std=c++17", "-D__SYNTHESIS__", *(f"-D{macro}" for macro in macros)]
    arguments += ["-Wno-unknown-pragmas", "-nobuiltininc", *(f"-I{path}" for path in include)]
    for directory in system:
        arguments += ["-isystem", str(directory)]
    options = TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD  # for the uses of macros
    return Index.create().parse(str(path), arguments, [(str(path), text)], options)


@cache
def resolved(name: str) -> Path:
    """A file's path without links."""
    return Path(name).resolve()


@lru_cache(maxsize=2)
def skipped(unit: TranslationUnit) -> dict[Path, list[range]]:
    """The lines of every file that the preprocessor left out."""
    found: dict[Path, list[range]] = {}
    listed = conf.lib.clang_getAllSkippedRanges(unit)
    for place in listed.contents.ranges[: listed.contents.count]:
        if place.start.file is not None:
            lines = range(place.start.line, place.end.line + 1)
            found.setdefault(resolved(place.start.file.name), []).append(lines)
    conf.lib.clang_disposeSourceRangeList(listed)
    return found


def path_of(cursor: Cursor) -> Path | None:
    """The file a cursor stands in."""
    return resolved(cursor.location.file.name) if cursor.location.file else None


def children(cursor: Cursor) -> list[Cursor]:
    """The children of a cursor."""
    return list(cursor.get_children())


def evaluate(expression: Cursor) -> int | None:
    """The value of an integer constant expression, None for any other."""
    result = conf.lib.clang_Cursor_Evaluate(expression)
    if not result:
        return None
    is_integer = conf.lib.clang_EvalResult_getKind(result) == 1
    value = conf.lib.clang_EvalResult_getAsLongLong(result) if is_integer else None
    conf.lib.clang_EvalResult_dispose(result)
    return value


def operator(expression: Cursor) -> str:
    """The operator of an expression as it is written ("x++" and "++x" for the unary ones)."""
    if expression.kind == CursorKind.UNARY_OPERATOR:
        return UNARY[conf.lib.clang_getCursorUnaryOperatorKind(expression)]
    if expression.kind in (
        CursorKind.BINARY_OPERATOR,
        CursorKind.COMPOUND_ASSIGNMENT_OPERATOR,
    ):
        return BINARY[conf.lib.clang_getCursorBinaryOperatorKind(expression)]
    return ""


def first_words(cursor: Cursor, count: int) -> list[str]:
    """The first tokens of a cursor."""
    tokens = cursor.get_tokens()
    return [token.spelling for token, _ in zip(tokens, range(count), strict=False)]


def is_constexpr(declaration: Cursor) -> bool:
    """Whether a variable or function is declared constexpr."""
    words = []
    for token in declaration.get_tokens():
        if token.spelling in ("(", "=", "{", ";"):
            break
        words.append(token.spelling)
    return "constexpr" in words


def root(expression: Cursor) -> Cursor | None:
    """The declaration of the array, object or pointer that an expression reaches into."""
    if expression.kind in (CursorKind.DECL_REF_EXPR, CursorKind.MEMBER_REF_EXPR):
        return expression.referenced
    if expression.kind == CursorKind.CALL_EXPR:
        return None
    inner = children(expression)
    return root(inner[0]) if inner else None


def reaches(expression: Cursor, declaration: Cursor) -> bool:
    """Whether an expression reaches into what a declaration declares."""
    found = root(expression)
    return found is not None and found == declaration


def in_namespace(declaration: Cursor, name: str) -> bool:
    """Whether a declaration lies in the outermost namespace `name`."""
    outermost, parent = None, declaration
    while parent is not None and parent.kind != CursorKind.TRANSLATION_UNIT:
        outermost, parent = parent, parent.semantic_parent
    return (
        outermost is not None
        and outermost.kind == CursorKind.NAMESPACE
        and outermost.spelling == name
    )


def target(declared: Type) -> Type:
    """A canonical type without its reference."""
    canonical = declared.get_canonical()
    references = (TypeKind.LVALUEREFERENCE, TypeKind.RVALUEREFERENCE)
    return canonical.get_pointee() if canonical.kind in references else canonical


def is_stream(declared: Type) -> bool:
    """Whether a type is hls::stream or a reference to one."""
    declaration = target(declared).get_declaration()
    return declaration.spelling == "stream" and in_namespace(declaration, "hls")


def element(declared: Type) -> Type:
    """What an array type is made of, whatever its dimensions."""
    while declared.kind == TypeKind.CONSTANTARRAY:
        declared = declared.get_array_element_type().get_canonical()
    return declared


def array_fields(declared: Type, prefix: str) -> Iterator[tuple[str, Type]]:
    """Paths and types of the arrays in a variable called `prefix`."""
    canonical = declared.get_canonical()
    if canonical.kind == TypeKind.CONSTANTARRAY:
        yield prefix, canonical
    elif canonical.kind == TypeKind.RECORD:
        for member in canonical.get_fields():
            yield from array_fields(member.type, f"{prefix}.{member.spelling}")


def dimensions(declared: Type) -> int:
    """The number of an array's dimensions."""
    count = 0
    while declared.kind == TypeKind.CONSTANTARRAY:
        declared, count = declared.get_array_element_type().get_canonical(), count + 1
    return count


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


def is_top(function: Cursor) -> bool:
    """Whether a definition in a source of hls/src is a top: a function others may call."""
    is_function = function.kind == CursorKind.FUNCTION_DECL and function.is_definition()
    is_shared = function.storage_class != StorageClass.STATIC
    return is_function and is_shared and not is_constexpr(function)


def is_constexpr_if(statement: Cursor) -> bool:
    """Whether a statement is an `if constexpr`."""
    is_if = statement.kind == CursorKind.IF_STMT
    return is_if and first_words(statement, 2) == ["if", "constexpr"]


def built(statement: Cursor) -> list[Cursor]:
    """The parts of an if that become hardware: of `if constexpr` the branch that is taken."""
    condition, *branches = children(statement)
    if not is_constexpr_if(statement):
        return [condition, *branches]
    return branches[:1] if evaluate(condition) else branches[1:]


def declarations(scope: Cursor) -> Iterator[Cursor]:
    """What is declared in a source, also in namespaces and in extern "C"."""
    nests = (CursorKind.NAMESPACE, CursorKind.LINKAGE_SPEC, CursorKind.UNEXPOSED_DECL)
    for cursor in scope.get_children():
        yield cursor
        if cursor.kind in nests:
            yield from declarations(cursor)


def encloses(cursor: Cursor, line: int) -> bool:
    """Whether a line lies in a function or loop."""
    return cursor.extent.start.line <= line <= cursor.extent.end.line


def loops(cursor: Cursor) -> list[Cursor]:
    """The loops in a function or loop, itself left out."""
    return [c for c in cursor.walk_preorder() if c.kind in LOOPS and c != cursor]

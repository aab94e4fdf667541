"""What JSON has to look like, and what is taken of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

LARGEST = 1e300  # integers beyond it cannot be divided by a float


class ShapeError(ValueError):
    """JSON is not as it has to be; the message says where."""


class Maybe(NamedTuple):
    """A shape, or null, or nothing at all."""

    of: Any


def shaped(value: Any, shape: Any, where: str = "it") -> Any:
    """Of ``value``, from JSON, what ``shape`` asks for; null for each `Maybe` that is not there.

    A shape is `str`, `float` (any number) or `bool`; ``[shape]``, a list; ``(shape, ...)``, a list
    of that length; ``{key: shape}``, an object with these keys and perhaps others, which are left
    out; or ``{str: shape}``, one with any keys. ShapeError for anything else; ``where`` names it.
    """
    if isinstance(shape, Maybe):
        return None if value is None else shaped(value, shape.of, where)
    if value is None:
        raise ShapeError(f"{where} is missing")
    if isinstance(shape, dict):
        return _object(value, shape, where)
    if isinstance(shape, list | tuple):
        return _list(value, shape, where)
    if shape is float and isinstance(value, int | float) and not isinstance(value, bool):
        if value != value:
            raise ShapeError(f"{where} is not a number (NaN)")
        if abs(value) > LARGEST and value not in (float("inf"), float("-inf")):
            raise ShapeError(f"{where} is too large a number")
        return value
    if shape is float or not isinstance(value, shape):
        names = {str: "text", float: "a number", bool: "true or false"}
        raise ShapeError(f"{where} is {_short(value)}, not {names[shape]}")
    return value


def grouped(items: Iterable[Mapping[str, Any]], *keys: str) -> dict[str, list[Mapping[str, Any]]]:
    """Items by what they have under ``keys``, joined by commas, in the order of appearance."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        groups.setdefault(", ".join(item[key] for key in keys), []).append(item)
    return groups


def _object(value: Any, shape: dict, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ShapeError(f"{where} is {_short(value)}, not an object")
    if str in shape:
        return {key: shaped(part, shape[str], f"{where}.{key}") for key, part in value.items()}
    return {key: shaped(value.get(key), part, f"{where}.{key}") for key, part in shape.items()}


def _list(value: Any, shape: list | tuple, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ShapeError(f"{where} is {_short(value)}, not a list")
    if isinstance(shape, list):
        shape = shape * len(value)
    if len(value) != len(shape):
        raise ShapeError(f"{where} has {len(value)} items, not {len(shape)}")
    parts = enumerate(zip(value, shape, strict=True))
    return [shaped(part, of, f"{where}[{number}]") for number, (part, of) in parts]


def _short(value: Any) -> str:
    kinds = {dict: "an object", list: "a list"}
    return kinds.get(type(value)) or repr(value)[:40]

"""Converts DeviceInfo, Resources and TilePlan to mappings and back, with a check of each field.

The other end may be newer, older or hostile. An unknown field raises `Damaged`; a missing field
gets its default.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, TypeVar, get_type_hints

from sparkle_drv.cluster.wire.values import Damaged
from sparkle_drv.types import CacheLevel, DeviceInfo, Resources, TilePlan

_T = TypeVar("_T", DeviceInfo, Resources, TilePlan, CacheLevel)
_MOST_TEXT = 4096
_MOST_LIST = 1 << 16  # the most items of a list: enough for the program of a map plan


def to_mapping(value: Any) -> Any:
    """Converts a dataclass to a dict, recursively, and a tuple to a list. Returns other values as
    they are.
    """
    if isinstance(value, tuple):
        return [to_mapping(one) for one in value]
    if hasattr(value, "__dataclass_fields__"):
        return {one.name: to_mapping(getattr(value, one.name)) for one in fields(value)}
    return value


def from_mapping(kind: type[_T], mapping: Any) -> _T:
    """Makes the dataclass `kind` from a mapping. Raises Damaged for fields that do not fit."""
    if type(mapping) is not dict:
        raise Damaged(f"{kind.__name__}: expected a mapping, got {type(mapping).__name__}")
    known = {field.name: field for field in fields(kind)}
    hints = get_type_hints(kind)
    values = {}
    for name, value in mapping.items():
        if name not in known:
            raise Damaged(f"{kind.__name__}: expected known fields, got {str(name)[:40]!r}")
        values[name] = _value(f"{kind.__name__}: {name}", hints[name], value)
    for name, field in known.items():
        if name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise Damaged(f"{kind.__name__}: expected the field {name}, got none")
    return kind(**values)


def _value(what: str, hint: Any, value: Any) -> Any:
    """Converts `value` to what the annotation `hint` names: int, float, str, bool, tuples of these,
    None.
    """
    options: tuple[Any, ...] = getattr(hint, "__args__", ())
    origin = getattr(hint, "__origin__", None)
    if origin is None and type(None) in options:  # the annotation is `X | None`
        if value is None:
            return None
        hint = next(option for option in options if option is not type(None))
        return _value(what, hint, value)
    if origin is tuple:
        if type(value) is not list or len(value) > _MOST_LIST:
            raise Damaged(f"{what}: expected a list, got {type(value).__name__}")
        if Ellipsis in options:
            return tuple(_value(what, options[0], option) for option in value)
        if len(value) != len(options):
            raise Damaged(f"{what}: expected {len(options)} values, got {len(value)}")
        return tuple(
            _value(what, option, each) for option, each in zip(options, value, strict=True)
        )
    if hint is CacheLevel:
        return from_mapping(CacheLevel, value)
    if hint is float and type(value) is int:
        value = float(value)
    if type(value) is not hint:
        raise Damaged(f"{what}: expected {hint.__name__}, got {type(value).__name__}")
    if hint is str and len(value) > _MOST_TEXT:
        raise Damaged(f"{what}: expected at most {_MOST_TEXT} characters, got {len(value)}")
    if hint is int and not -(2**63) <= value < 2**64:
        raise Damaged(f"{what}: expected at most 64 bits, got {value}")
    return value

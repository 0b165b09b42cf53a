"""A pydantic model as its parts, and back, without its validation and its ``model_post_init``; and as JSON types.

Its fields are one part. What is beyond them, and is there, is the rest: ``extra`` ones, ``private`` attributes, and
which fields were ``set`` if not all were.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

_EXTRA, _PRIVATE, _SET = "__pydantic_extra__", "__pydantic_private__", "__pydantic_fields_set__"


def is_model(kind: type) -> bool:
    """Say whether *kind* is a class of pydantic's, which need not be installed."""
    return hasattr(kind, "model_fields") and hasattr(kind, _SET)


def parts_of(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a model, and the rest."""
    state = model.__getstate__()
    names = type(model).model_fields
    fields = {name: value for name, value in state["__dict__"].items() if name in names}  # not a cached property
    rest: dict[str, Any] = {}
    if extra := state.get(_EXTRA):
        rest["extra"] = extra
    if private := state.get(_PRIVATE):
        rest["private"] = private
    if state[_SET] != {*fields, *(extra or ())}:
        rest["set"] = sorted(state[_SET])
    return fields, rest


def model_of(kind: Any, fields: dict[str, Any], rest: dict[str, Any]) -> Any:
    """Return the model that had these parts. What its class has gained since then has its default."""
    extra, private = rest.get("extra", {}), rest.get("private", {})
    since: dict[str, Any] = {}
    if {*kind.model_fields, *kind.__private_attributes__} - {*fields, *private}:
        since = kind.model_construct(**fields).__getstate__()
    made = kind.__new__(kind)
    made.__setstate__(
        {
            "__dict__": since.get("__dict__", {}) | fields,
            _EXTRA: extra if kind.model_config.get("extra") == "allow" else None,
            _PRIVATE: (since.get(_PRIVATE) or {}) | private if kind.__private_attributes__ else None,
            _SET: set(rest.get("set", (*fields, *extra))),
        }
    )
    return made


def is_dumpable(value: object) -> bool:
    """Say whether *value* is an object that writes itself as JSON types, as pydantic's models do."""
    return callable(getattr(value, "model_dump", None)) and not isinstance(value, type)


def dumped(model: Any, **options: Any) -> Any:
    """Return a model as its ``model_dump`` writes it in JSON types, the same in every process: its sets are sorted.

    It is written by the names of its fields, whatever aliases they have.
    """
    return _in_order(model.model_dump(mode="json", by_alias=False, **options), model)


def _by_name(value: Any) -> Any:
    return dumped(value) if is_dumpable(value) else type(value).__qualname__


# JSON for telling whether two values are the same: what has no form of its own counts by the name of its class.
encode_by_name = msgspec.json.Encoder(enc_hook=_by_name, order="sorted").encode


def _in_order(written: Any, value: Any) -> Any:
    """Return what was *written* of *value*, with the sets in it sorted, as far as the two are alike."""
    if getattr(type(value), "__pydantic_root_model__", False):
        return _in_order(written, value.root)
    if isinstance(written, dict):
        parts = value.values() if isinstance(value, Mapping) else [getattr(value, name, None) for name in written]
        if len(parts) == len(written):
            return {name: _in_order(part, of) for (name, part), of in zip(written.items(), parts, strict=True)}
    if isinstance(written, list) and isinstance(value, Collection) and len(value) == len(written):
        members = [_in_order(part, of) for part, of in zip(written, value, strict=True)]
        return sorted(members, key=msgspec.json.encode) if isinstance(value, set | frozenset) else members
    return written


__all__ = ["dumped", "encode_by_name", "is_dumpable", "is_model", "model_of", "parts_of"]

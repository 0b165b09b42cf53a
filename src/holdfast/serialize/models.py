"""A pydantic model as its parts, and back, without its validation and its ``model_post_init``.

Its fields are one part. What is beyond them, and is there, is the rest: ``extra`` ones, ``private`` attributes, and
which fields were ``set`` if not all were.
"""

from __future__ import annotations

from typing import Any

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


__all__ = ["is_model", "model_of", "parts_of"]

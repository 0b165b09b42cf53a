"""What may be said about a run that is put in a queue, checked before anything is written."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from holdfast.core.durations import checked_seconds
from holdfast.core.moments import checked_moment
from holdfast.core.numbers import MOST_COUNTED
from holdfast.core.options import check_attributes, refuse_unknown, several
from holdfast.core.texts import check_text
from holdfast.errors import ConfigurationError, MisuseError
from holdfast.model.queue import RESERVED_PREFIX
from holdfast.model.workflow import StartOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.model.workflow import Duration

POLICIES = ("reject", "return_existing")

_QUEUE_ALONE = (
    "queue_name",
    "priority",
    "delay",
    "delay_until",
    "deduplication_id",
    "queue_partition_key",
    "on_duplicate",
    "debounce_timeout",
)
_TEXTS = ("authenticated_user", "assumed_role", "application_version")
_DEFAULTS: dict[str, Any] = {each.name: each.default for each in fields(StartOptions)}
# A debounced call has these from its key and its period, or is answered by a run that is there.
_NOT_DEBOUNCED = ("workflow_id", "deduplication_id", "delay", "delay_until", "on_conflict", "on_duplicate")


def said(options: StartOptions, names: tuple[str, ...]) -> list[str]:
    """Return which of the options *names* were said."""
    return [name for name in names if getattr(options, name) != _DEFAULTS[name]]


def merged(own: StartOptions, common: StartOptions) -> StartOptions:
    """Return *own* options, and for those that were not said the *common* ones."""
    names = tuple(_DEFAULTS)
    return StartOptions(
        **{name: getattr(common, name) for name in names} | {n: getattr(own, n) for n in said(own, names)}
    )


def chosen(options: StartOptions, besides: Mapping[str, Any]) -> StartOptions:
    """Return *options* with what is said *besides*; raise for what no run can have."""
    refuse_unknown("A run", besides, _DEFAULTS)
    found = replace(options, **besides)
    check_options(found)
    return found


def check_options(options: StartOptions) -> None:
    """Raise for what no run can have, however it begins."""
    check_policy("on_conflict", options.on_conflict)
    check_policy("on_duplicate", options.on_duplicate)
    if options.timeout is not None:
        checked_seconds(options.timeout, "The timeout of a run")
    for name in _TEXTS:
        check_key(name, getattr(options, name))
    check_attributes(options.attributes)
    roles: Any = options.authenticated_roles
    if roles is not None and not all(isinstance(each, str) for each in several("authenticated_roles", roles)):
        raise ConfigurationError(f"authenticated_roles are several texts, as in ('admin',), not {roles!r}.")


def refuse_queue_options(options: StartOptions, verb: str) -> None:
    """Raise if something was said that only a queue can heed."""
    if options is NONE_SAID:
        return
    found = said(options, _QUEUE_ALONE)
    if found:
        raise MisuseError(
            f"{verb} begins a run at once, so {', '.join(found)} would mean nothing: use enqueue(), or leave "
            f"{'it' if len(found) == 1 else 'them'} out."
        )


def check_queue_options(options: StartOptions, verb: str) -> None:
    """Raise for what no queue can hold; *verb* needs a queue, which must not be one of ours."""
    if options.queue_name is None:
        raise MisuseError(f"{verb} puts a run in a queue: say which, with options(queue_name=...).")
    check_key("queue_name", options.queue_name)
    if options.queue_name.startswith(RESERVED_PREFIX):
        raise ConfigurationError(
            f"Queue names that begin with {RESERVED_PREFIX} are the library's own; choose another one."
        )
    check_key("deduplication_id", options.deduplication_id)
    check_key("queue_partition_key", options.queue_partition_key)
    priority = options.priority
    if type(priority) is not int or not 0 <= priority <= MOST_COUNTED:
        raise ConfigurationError(
            f"A priority is a whole number from 0, which goes first, to {MOST_COUNTED}, not {priority!r}."
        )
    _check_delay(options)
    if options.debounce_timeout is not None and verb != "debounce()":
        raise MisuseError(f"debounce_timeout says how long calls of debounce() may put a run off; {verb} is none.")


def check_debounce_options(options: StartOptions, period: Duration) -> None:
    """Raise for what a debounced call cannot have."""
    check_queue_options(options, "debounce()")
    found = said(options, _NOT_DEBOUNCED)
    if found:
        raise MisuseError(
            f"debounce() replaces a run that waits, or makes one that waits for the period, so {', '.join(found)} "
            f"cannot be said besides."
        )
    checked_seconds(period, "The period of debounce()")
    if options.debounce_timeout is not None:
        checked_seconds(options.debounce_timeout, "debounce_timeout")


def _check_delay(options: StartOptions) -> None:
    if options.delay is not None:
        checked_seconds(options.delay, "A delay")
    if options.delay_until is not None:
        if options.delay is not None:
            raise ConfigurationError("Both delay and delay_until were said: a run is delayed by one of them.")
        checked_moment(options.delay_until, "delay_until")


def check_policy(name: str, policy: str) -> None:
    """Raise unless *policy* is one of the two."""
    if policy not in POLICIES:
        raise ConfigurationError(f"{name} may be {' or '.join(POLICIES)}, not {policy!r}.")


def check_key(what: str, key: object) -> None:
    """Raise unless *key*, if there is one, is a text that fits its column on every database."""
    if key is not None:
        check_text(what, key)


NONE_SAID = StartOptions()

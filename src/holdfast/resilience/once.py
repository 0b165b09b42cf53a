"""One call for each idempotency key: whoever comes with the same key gets the result of the first."""

from __future__ import annotations

import functools
import inspect
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.errors import ConfigurationError, MisuseError
from holdfast.serialize import PortableJSON
from holdfast.serialize.annotations import Decoder, hints_of
from holdfast.stores.idempotency.claims import giving_back
from holdfast.stores.idempotency.fingerprint import digest
from holdfast.stores.keys import checked_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.model.world import World
    from holdfast.resilience.layers import Ask, Call
    from holdfast.resilience.sealing import Sealing
    from holdfast.stores.idempotency.claims import Claims, Held
    from holdfast.stores.idempotency.entry import Kept
    from holdfast.stores.idempotency.memory_claims import MemoryClaims

_json = PortableJSON()


class KeyClaims(Protocol):
    """Claims as ``Claims`` and ``MemoryClaims`` have them; for an async function the last three are awaited."""

    def hold(self, key: str, mark: str) -> Held: ...
    def patience(self, held: Held) -> float: ...
    def take(self, held: Held) -> Any: ...
    def keep(self, held: Held, data: str, headers: str = "{}") -> Any: ...
    def drop(self, held: Held) -> Any: ...


@dataclass(frozen=True, slots=True)
class Keys:
    """Which key a call of the function *name* has; *claims* returns where it is claimed, by whether it is async.

    With *sealing* results go through the codecs of the application.
    Each function has keys of its own: two of them may be called with the same order number.
    """

    name: str
    key: str | Callable[..., str]
    claims: Callable[[bool], KeyClaims]
    sealing: Sealing | None = None
    _what: str = field(init=False)
    _space: str = field(init=False)

    def __post_init__(self) -> None:
        """Refuse what is no key, where it is given."""
        if not isinstance(self.key, str) and not callable(self.key):
            raise ConfigurationError(
                f"idempotency_key of {self.name!r} is a text or a function of the arguments, not {self.key!r:.50}."
            )
        space = self.name.replace("%", "%25").replace(":", "%3A")  # so that it ends at the colon
        object.__setattr__(self, "_space", f"protect:{space}:")
        object.__setattr__(self, "_what", f"idempotency key of {self.name!r}")

    def held(
        self, claims: KeyClaims, signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Held:
        """Return the key of a call, to be taken. An argument given by its name is the same as one in its place."""
        chosen = self.key(*args, **kwargs) if callable(self.key) else self.key
        if not isinstance(chosen, str):
            raise MisuseError(f"The idempotency key of {self.name!r} is text, not {type(chosen).__name__}.")
        checked_key(chosen, self._what)
        if kwargs and signature is not None:
            with suppress(TypeError):  # arguments that do not fit: the call itself says so
                bound = signature.bind(*args, **kwargs)
                args, kwargs = bound.args, bound.kwargs
        return claims.hold(self._space + chosen, digest(self.name, {"positionalArgs": args, "namedArgs": kwargs}))

    def sealed(self, data: str) -> tuple[str, str]:
        """Return a result, JSON text, as it is kept: data and headers."""
        return (data, "{}") if self.sealing is None else self.sealing.result(data)

    def result(self, kept: Kept) -> str:
        """Return the result that was kept, JSON text."""
        return kept.response_data if self.sealing is None else self.sealing.opened_result(kept)


def once(call: Call, keys: Keys, world: World) -> Call:
    """Make one call of an async function for each key. Everybody gets what was stored, the first as the last.

    It is stored as JSON, and read as the type that the function says it returns. An error releases the key, and so does
    a result that does not fit JSON or that type.
    """
    read, signature = _reader(call, keys.name), _signature(call)

    @functools.wraps(call)
    async def one(*args: Any, **kwargs: Any) -> Any:
        claims = keys.claims(True)
        held = keys.held(claims, signature, args, kwargs)
        try:
            while (kept := await claims.take(held)) is None:
                await world.sleep(claims.patience(held))
            if not held.is_ours:
                return read(keys.result(kept))
            data = _json.serialize(await call(*args, **kwargs))
            result = read(data)
            await claims.keep(held, *keys.sealed(data))
        except BaseException:
            if held.is_ours:
                with giving_back(held):
                    await claims.drop(held)
            raise
        return result

    return one


def once_blocking(call: Call, keys: Keys) -> Call:
    """Do as ``once`` for a sync function, which runs on its caller's own thread."""
    read, signature = _reader(call, keys.name), _signature(call)

    @functools.wraps(call)
    def one(*args: Any, **kwargs: Any) -> Any:
        claims = keys.claims(False)
        held = keys.held(claims, signature, args, kwargs)
        try:
            while (kept := claims.take(held)) is None:
                time.sleep(claims.patience(held))
            if not held.is_ours:
                return read(keys.result(kept))
            data = _json.serialize(call(*args, **kwargs))
            result = read(data)
            claims.keep(held, *keys.sealed(data))
        except BaseException:
            held.is_over = True  # also if it is won from now on
            if held.is_ours:
                with giving_back(held):
                    claims.drop(held)
            raise
        return result

    return one


def _reader(call: Call, name: str) -> Callable[[str], Any]:
    """Return what reads a result as the type that *call* says it returns; without one it is plain JSON."""
    hints, _ = hints_of(call)
    return Decoder(hints["return"], f"the result of {name!r}").decode if "return" in hints else _json.deserialize


def _signature(call: Call) -> inspect.Signature | None:
    try:
        return inspect.signature(call)
    except (TypeError, ValueError):  # of some functions in C
        return None


class AskedClaims:
    """Claims that live on the application's loop; *ask* waits for an answer from there, or returns what is awaited."""

    def __init__(self, claims: Claims, ask: Ask, *, by_thread: bool) -> None:
        self._claims = claims
        self._ask = ask
        self._by_thread = by_thread
        self.patience = claims.patience

    def hold(self, key: str, mark: str) -> Held:
        return self._claims.hold(key, mark, by_thread=self._by_thread)

    def take(self, held: Held) -> Any:
        return self._ask(self._claims.take(held))

    def keep(self, held: Held, data: str, headers: str = "{}") -> Any:
        return self._ask(self._claims.keep(held, data, headers))

    def drop(self, held: Held) -> Any:
        return self._ask(self._claims.drop(held))


class AwaitedClaims:
    """Claims in memory for async functions."""

    def __init__(self, claims: MemoryClaims) -> None:
        self._claims = claims
        self.hold = claims.hold
        self.patience = claims.patience

    async def take(self, held: Held) -> Kept | None:
        return self._claims.take(held)

    async def keep(self, held: Held, data: str, headers: str = "{}") -> None:
        self._claims.keep(held, data, headers)

    async def drop(self, held: Held) -> None:
        self._claims.drop(held)


__all__ = ["AskedClaims", "AwaitedClaims", "KeyClaims", "Keys", "once", "once_blocking"]

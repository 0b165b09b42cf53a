"""The half-open slots that tasks and threads hold without naming them: each is ended once, whoever has inherited it."""

from __future__ import annotations

from collections import OrderedDict

from holdfast.stores import tokens

_MOST = 10_000  # ended slots that a task may still have inherited; what is older was ended long before its task


class HeldSlots:
    """The slots of one repository's breakers. *scope* tells them from those of another."""

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._ended: OrderedDict[str, None] = OrderedDict()

    def hold(self, service_name: str, token: str, most: int) -> None:
        """Hold one more slot: a task may have several of one breaker, *most* in all, and ends the last one first."""
        item = self._item(service_name)
        held = (tokens.held(item) or "").split()
        tokens.hold(item, " ".join([*held, token][-most:]))

    def take(self, service_name: str) -> str | None:
        """Return the slot whose outcome is told now, which is held no longer; None if that is no trial's.

        A task that was begun during a trial has inherited its slot; of all that have, the first one's outcome is the
        trial's, and those of the others are of calls of their own.
        """
        item = self._item(service_name)
        held = tokens.held(item)
        if held is None:
            return None
        left = [each for each in held.split() if each not in self._ended]
        last = left.pop() if left else None
        if left:
            tokens.hold(item, " ".join(left))
        else:
            tokens.let_go(item)
        if last is not None:
            self._ended[last] = None
            if len(self._ended) > _MOST:
                self._ended.popitem(last=False)
        return last

    def forget(self, service_name: str) -> None:
        """Hold no slot any more: all of the breaker's are gone."""
        tokens.let_go(self._item(service_name))

    def _item(self, service_name: str) -> tokens.Item:
        return ("breaker", self._scope, service_name)


__all__ = ["HeldSlots"]

"""The seam between what can be asked of runs and how it is carried out: by an application, or by a client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from holdfast.workflows.management.desk import Request

T = TypeVar("T")


class AsyncAsking(ABC):
    """Has requests carried out; awaited."""

    @abstractmethod
    async def _manage(self, request: Request[T]) -> T:
        """Carry *request* out, and return the answer."""


class Asking(ABC):
    """Has requests carried out; blocking."""

    @abstractmethod
    def _manage(self, request: Request[T]) -> T:
        """Carry *request* out, and return the answer."""

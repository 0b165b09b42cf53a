"""``@app.transaction``: its exact types, and how a function becomes a transaction."""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from holdfast.core.durations import checked_seconds
from holdfast.core.options import check_retry
from holdfast.db.manager import checked_isolation
from holdfast.errors import ConfigurationError, TransactionBroken
from holdfast.workflows.declaring.registry import StepDefinition, binds_to, checked_name, is_coroutine_function
from holdfast.workflows.transactions.functions import TransactionStep
from holdfast.workflows.transactions.home import TransactionDefinition

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from sqlalchemy import Engine as SqlEngine
    from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
    from sqlalchemy.orm import Session

    from holdfast.model.workflow import Duration, Retry
    from holdfast.workflows.engine.engine import Engine
    from holdfast.workflows.transactions.handle import AsyncTransaction, Transaction

P = ParamSpec("P")
R = TypeVar("R")


class MakesTransactions(Protocol):
    """``@app.transaction(...)`` over a database of ours."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[AsyncTransaction, P], Coroutine[Any, Any, R]], /
    ) -> TransactionStep[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Transaction, P], R], /) -> TransactionStep[P, R]: ...


class MakesSessionTransactions(Protocol):
    """``@app.transaction(engine=...)`` over an ``Engine`` of SQLAlchemy."""

    def __call__(self, function: Callable[Concatenate[Session, P], R], /) -> TransactionStep[P, R]: ...


class MakesAsyncSessionTransactions(Protocol):
    """``@app.transaction(engine=...)`` over an ``AsyncEngine`` of SQLAlchemy."""

    def __call__(
        self, function: Callable[Concatenate[AsyncSession, P], Coroutine[Any, Any, R]], /
    ) -> TransactionStep[P, Coroutine[Any, Any, R]]: ...


class TransactionDecorator:
    """What an application has for transactions."""

    _engine: Engine

    @overload
    def transaction(
        self, function: Callable[Concatenate[AsyncTransaction, P], Coroutine[Any, Any, R]], /
    ) -> TransactionStep[P, Coroutine[Any, Any, R]]: ...
    @overload
    def transaction(self, function: Callable[Concatenate[Transaction, P], R], /) -> TransactionStep[P, R]: ...
    @overload
    def transaction(
        self,
        *,
        engine: SqlEngine,
        name: str | None = None,
        isolation: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
    ) -> MakesSessionTransactions: ...
    @overload
    def transaction(
        self,
        *,
        engine: AsyncEngine,
        name: str | None = None,
        isolation: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
    ) -> MakesAsyncSessionTransactions: ...
    @overload
    def transaction(
        self,
        *,
        database: str | None = None,
        name: str | None = None,
        isolation: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
    ) -> MakesTransactions: ...
    def transaction(
        self,
        function: Any = None,
        *,
        database: str | None = None,
        engine: Any = None,
        name: str | None = None,
        isolation: str | None = None,
        retry: Retry | None = None,
        timeout: Duration | None = None,
    ) -> Any:
        """Make a function a step whose own writes commit together with its record.

        It is handed an open ``Transaction`` (async: ``AsyncTransaction``) as its first argument, and is called without
        it. *database* names another database than the application's; *engine* is an engine of SQLAlchemy, and a
        ``Session`` (``AsyncSession``) of it is handed over. Raises ``ConfigurationError`` for what cannot go together.
        """
        if database is not None and engine is not None:
            raise ConfigurationError("A transaction has one place for its data: give database= or engine=, not both.")
        if not isinstance(database, str | os.PathLike | None):
            raise ConfigurationError(
                f"database= takes a URL or the path of a SQLite file, not {type(database).__name__}; an engine of "
                "SQLAlchemy goes in engine=."
            )

        def decorate(function: Any) -> Any:
            definition = self._define_transaction(function, name, isolation, retry, timeout)
            home = self._engine.transactions.home(definition, database, engine)
            return TransactionStep(self._engine, definition, home.carrier, own=home.own)

        return decorate if function is None else decorate(function)

    def _define_transaction(
        self, function: Any, name: str | None, isolation: str | None, retry: Retry | None, timeout: Duration | None
    ) -> TransactionDefinition:
        binds, plain = binds_to(function)
        if binds != "nothing":
            raise ConfigurationError(
                f"The transaction {plain.__qualname__!r} is a method: write it as a function or a static method, whose "
                "first parameter is the transaction."
            )
        named = checked_name(name, plain)
        if not _takes_one(plain):
            raise ConfigurationError(
                f"The transaction {named!r} takes nothing, and is handed its transaction: make it the first parameter."
            )
        check_retry(f"the transaction {named!r}", retry)
        if timeout is not None:
            checked_seconds(timeout, f"The timeout of the transaction {named!r}")
        step = StepDefinition(
            name=named,
            function=plain,
            is_async=is_coroutine_function(plain),
            codec=self._engine.payloads.codec(plain, skip=1),
            # What was ended too early is there and must not be written again.
            retry=None if retry is None else replace(retry, never=(*retry.never, TransactionBroken)),
        )
        self._engine.registry.add_step(step, anew=not self._engine.launched)
        return TransactionDefinition(step=step, isolation=checked_isolation(isolation), timeout=timeout)


def _takes_one(function: Callable[..., Any]) -> bool:
    """Whether *function* has a parameter for what it is handed."""
    kinds = {each.kind for each in inspect.signature(function).parameters.values()}
    return bool(kinds - {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD})

"""Named SQL: read from ``.sql`` files, put into the words of one dialect once, bound to values many times.

``common.sql`` holds what all dialects share; ``sqlite.sql``, ``postgres.sql`` and ``mysql.sql`` hold, under
the same names, what must differ. A file says::

    -- name: record_steps
    -- What it does, for the reader.
    -- rows: workflow_id text, step int, output text
    INSERT INTO @operation_outputs (workflow_uuid, function_id, output, written_by, written_at)
    SELECT r.workflow_id, r.step, r.output, :executor, {now_ms} FROM {rows} AS r;

``:name`` is a parameter, ``@name`` one of our tables, ``"name"`` a quoted name in every dialect, ``{name}``
a fragment (``{now_ms}``, ``{now_iso}`` and ``{later_iso}`` are the database's clock), ``;`` ends a statement.
``-- rows:`` makes a batch query: ``{rows} AS r`` is a table with those columns and ``n``, the row's place in the batch
from 0; the text of a dialect takes the rows of the common one. ``-- only: postgres`` marks what the other dialects do
not have. ``-- fragment: name`` begins a text that is put in for ``{name}``. A part in ``[[ ... ]]`` stands only when
what it asks for is given; see ``segments.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from holdfast.db.queries import source as query_source
from holdfast.db.queries.calls import Call, spread_alone, spread_many, taker
from holdfast.db.queries.clock import clock
from holdfast.db.queries.identifiers import check_identifier
from holdfast.db.queries.source import Column, Source
from holdfast.db.queries.text import Statement, expanded, statements
from holdfast.db.url import DialectName
from holdfast.errors import ConfigurationError, MisuseError, QueryFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from holdfast.db.queries.calls import Spread, Take

_FOLDER = Path(__file__).with_name("sql")
_NO_VALUES: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Query:
    """One named query in the words of one dialect; its statements run in order, the last one answers.

    If it has optional parts, its statements are those with all of them; *optional* are the parameters and switches
    that may be left out or None, and ``variant`` is the query that is left without them. *alone* are the statements of
    a batch query for one row, on PostgreSQL: its values are plain parameters, which nobody need take apart.
    """

    name: str
    doc: str
    parameters: tuple[str, ...]
    rows: tuple[Column, ...] | None
    statements: tuple[Statement, ...]
    dialect: DialectName
    alone: tuple[Statement, ...] = ()
    optional: frozenset[str] = frozenset()
    switches: frozenset[str] = frozenset()
    _vary: Callable[[frozenset[str]], Query] | None = field(default=None, repr=False, compare=False)
    _wanted: int = field(init=False, repr=False, compare=False)
    _takes: tuple[tuple[str, Take], ...] = field(init=False, repr=False, compare=False)
    _spread: Spread | None = field(init=False, repr=False, compare=False)
    _spread_one: Spread | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Prepare what ``bind`` and ``batch`` would otherwise work out at every call."""
        spread = spread_one = None
        if self.rows is not None:
            spread = spread_many(self.statements, self.rows, self.parameters, self.dialect)
            spread_one = spread_alone(self.alone or self.statements, self.rows, self.parameters, self.dialect)
        always_the_same = self.rows is None and self._vary is None
        object.__setattr__(self, "_wanted", len(self.parameters) if always_the_same else -1)
        object.__setattr__(self, "_takes", tuple((each.text, taker(each.order)) for each in self.statements))
        object.__setattr__(self, "_spread", spread)
        object.__setattr__(self, "_spread_one", spread_one)

    def bind(self, values: Mapping[str, Any]) -> tuple[Call, ...]:
        """Return the calls to make. Raises QueryFailed unless its parameters are given, optional ones apart."""
        # The statements together take every parameter: if none is missing and the number is right, all fit.
        if len(values) == self._wanted:
            try:
                return tuple([(text, take(values)) for text, take in self._takes])
            except KeyError:
                pass  # one has a name that is no parameter's: said below
        if self._vary is not None and values.keys() <= set(self.parameters):
            variant = self.variant(name for name in self.optional if self._is_given(name, values.get(name)))
            return variant.bind({name: values[name] for name in variant.parameters if name in values})
        raise self._misfit(values, batch=False)

    def variant(self, given: Iterable[str]) -> Query:
        """Return the query that is left when *given* are the optional parameters and switches there are."""
        return self if self._vary is None else self._vary(frozenset(given))

    def _is_given(self, name: str, value: Any) -> bool:
        return value is not None and not (value is False and name in self.switches)

    def batch(
        self, rows: Sequence[Sequence[Any]], values: Mapping[str, Any] = _NO_VALUES, *, one_text: bool = False
    ) -> list[Call]:
        """Return the calls that run this batch query over *rows*; none for no rows.

        *values* are for its parameters, the same for all rows. PostgreSQL and MySQL take one call for each
        statement; SQLite one for each statement and ``MOST_ROWS`` rows, all statements for these before the next. With
        *one_text* PostgreSQL gets the same text for any number of rows, for whoever builds on it. Raises QueryFailed if
        values or rows do not fit.
        """
        spread = self._spread_one if len(rows) == 1 and not one_text else self._spread
        if spread is None or self.rows is None or values.keys() != set(self.parameters):
            raise self._misfit(values, batch=True)
        if not rows:
            return []
        if set(map(len, rows)) != {len(self.rows)}:
            raise QueryFailed(
                f"The query {self.name} takes rows of {len(self.rows)} values"
                f" ({', '.join(column.name for column in self.rows)}), but one has another number of them."
            )
        return spread(rows, tuple([values[name] for name in self.parameters]))

    def _misfit(self, values: Mapping[str, Any], *, batch: bool) -> QueryFailed:
        if batch is not (self.rows is not None):
            kind, verb = ("takes no rows", "bind") if batch else ("takes rows", "batch")
            return QueryFailed(f"The query {self.name} {kind}: call its {verb}() instead.")
        wanted = set(self.parameters)
        missing, unknown = wanted - values.keys(), values.keys() - wanted
        told = [f"lacks {', '.join(sorted(missing))}"] if missing else []
        told += [f"has no parameter {', '.join(sorted(unknown))}"] if unknown else []
        those = ", ".join(self.parameters) or "none"
        return QueryFailed(f"The query {self.name} {' and '.join(told)}; its parameters are: {those}.")


class Queries:
    """All named queries for one dialect. A query is translated when it is first asked for, then kept."""

    def __init__(
        self,
        dialect: DialectName,
        sources: Mapping[str, Source],
        schema: str | None,
        fragments: Mapping[str, str],
    ) -> None:
        self.dialect = dialect
        self.sources = MappingProxyType(dict(sources))
        self.schema = schema
        self._fragments = fragments
        self._ready: dict[str, Query] = {}

    @classmethod
    def load(
        cls,
        dialect: DialectName,
        schema: str | None = None,
        *,
        folder: Path | None = None,
        fragments: Mapping[str, str] | None = None,
        clock_offset_ms: str | None = None,
    ) -> Queries:
        """Read the queries of *dialect* from *folder*; a dialect's own query stands before the common one.

        *schema* is where PostgreSQL's tables are; the others ignore it. *fragments* are further ``{name}``
        texts. *clock_offset_ms* is an SQL expression added to the database's clock, for tests. The same call gives
        the same object for as long as the process lives: the files belong to the code. Raises QueryFailed for a file
        that is not in the grammar, ConfigurationError for a folder without files.
        """
        if schema is not None:
            check_identifier(schema, dialect, "schema")
        if fragments is not None and not fragments.keys().isdisjoint({"rows", "now_ms", "now_iso", "later_iso"}):
            raise ConfigurationError(
                "The fragments rows, now_ms, now_iso and later_iso are built in: give yours other names."
            )
        given = frozenset((fragments or {}).items())
        return _loaded(dialect, schema, _FOLDER if folder is None else folder, given, clock_offset_ms)

    def names(self) -> tuple[str, ...]:
        """Return the names of all queries, sorted."""
        return tuple(sorted(self.sources))

    def __getitem__(self, name: str) -> Query:
        """Return the query *name*; raises MisuseError if there is none, QueryFailed if its text is wrong."""
        query = self._ready.get(name)
        if query is None:
            query = self._ready[name] = self._translated(name)
        return query

    def __iter__(self) -> Iterator[Query]:
        return (self[name] for name in self.names())

    def _translated(self, name: str) -> Query:
        source = self.sources.get(name)
        if source is None:
            near = get_close_matches(name, self.sources, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else "see names() for those there are."
            raise MisuseError(f"There is no query {name!r} for {self.dialect}: {hint}")
        whole = expanded(source, self.dialect, self._fragments)
        parts = list(whole.inner())
        switches = frozenset(part.switch for part in parts if part.switch is not None)
        optional = switches.union(*(part.parameters for part in parts)) - whole.parameters

        # The sets of filters that a program uses are few; each text is about as long as the query.
        @lru_cache(maxsize=256)
        def vary(given: frozenset[str]) -> Query:
            return self._written(source, whole.text(given))

        query = vary(optional | whole.parameters)
        if not parts:
            return query
        return replace(
            query,
            parameters=tuple(sorted({*query.parameters, *switches})),
            optional=optional,
            switches=switches,
            _vary=lambda given: vary(given | whole.parameters),
        )

    def _written(self, source: Source, text: str) -> Query:
        written = statements(source, text, self.dialect, self.schema)
        parameters = {each for statement in written for each in statement.order if not each.startswith("rows.")}
        has_two = source.rows is not None and self.dialect is DialectName.POSTGRES
        alone = statements(source, text, self.dialect, self.schema, alone=True) if has_two else ()
        return Query(source.name, source.doc, tuple(sorted(parameters)), source.rows, written, self.dialect, alone)


# One engine asks for a dozen folders, and a process may open many engines on as many schemas.
@lru_cache(maxsize=256)
def _loaded(
    dialect: DialectName,
    schema: str | None,
    folder: Path,
    fragments: frozenset[tuple[str, str]],
    clock_offset_ms: str | None,
) -> Queries:
    sources, written = _merged(folder, dialect)
    return Queries(dialect, sources, schema, {**written, **clock(dialect, clock_offset_ms), **dict(fragments)})


@lru_cache
def _merged(folder: Path, dialect: DialectName) -> tuple[dict[str, Source], dict[str, str]]:
    paths = [folder / "common.sql", folder / f"{dialect}.sql"]
    if not any(path.exists() for path in paths):
        raise ConfigurationError(f"There are no queries in {folder}: it needs common.sql or {dialect}.sql.")
    common, own = (query_source.read(path) for path in paths)
    for source in own.queries.values():
        if source.only and dialect not in source.only:
            raise QueryFailed(f"{source.place}: the query {source.name} is in the file of a dialect it excludes.")
    shared = {name: source for name, source in common.queries.items() if not source.only or dialect in source.only}
    rows = {name: source.rows for name, source in shared.items()}
    theirs = {name: replace(each, rows=each.rows or rows.get(name)) for name, each in own.queries.items()}
    return shared | theirs, common.fragments | own.fragments


def compare(*loaded: Queries) -> list[str]:
    """Tell where dialects do not offer the same queries, parameters and rows; an empty list is good news."""
    differences: list[str] = []
    for name in sorted({name for queries in loaded for name in queries.sources}):
        having = [queries for queries in loaded if name in queries.sources]
        only = frozenset(chain.from_iterable(queries.sources[name].only for queries in having))
        differences += [
            f"{name}: {queries.dialect} does not have it, {having[0].dialect} does"
            for queries in loaded
            if name not in queries.sources and (not only or queries.dialect in only)
        ]
        first, *others = having
        for other in others:
            differences += _differences(first[name], other[name])
    return differences


def _differences(one: Query, other: Query) -> Iterable[str]:
    sides = f"{one.dialect} and {other.dialect}"
    if one.parameters != other.parameters:
        names = _listed(one.parameters), _listed(other.parameters)
        yield f"{one.name}: {sides} differ in parameters: {names[0]} / {names[1]}"
    if one.rows != other.rows:
        rows = [None if each.rows is None else [" ".join(column) for column in each.rows] for each in (one, other)]
        yield f"{one.name}: {sides} differ in rows: {_listed(rows[0])} / {_listed(rows[1])}"


def _listed(names: Iterable[str] | None) -> str:
    return "no rows" if names is None else f"({', '.join(names)})"


__all__ = ["Call", "Column", "Queries", "Query", "Statement", "compare"]

"""Servers for the whole run, and databases for each test.

The process that the user started (the controller, under xdist) starts the servers once and hands their URLs
to the workers. No test may stop, kill or flush them, since others are using them: a test that wants that asks
for a server of its own (``own_server``) and a test that wants an empty database asks for ``fresh_database``.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from holdfast.testing.nursery import Nursery
from holdfast.testing.servers import KINDS, Fleet, Server, databases_of
from holdfast.testing.skips import SkipReason, skip

if TYPE_CHECKING:
    from pathlib import Path

# Before any test module imports it, so that its assertions show their values.
pytest.register_assert_rewrite("holdfast.testing.contract")

# How long an example takes says something about the machine, not about us.
hypothesis.settings.register_profile("house", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("house")

_FLEET = pytest.StashKey[Fleet]()
_URLS = pytest.StashKey[dict[str, str]]()
_HANDED_OVER = "holdfast_server_urls"

_MISSING = {
    "postgres": SkipReason.NO_POSTGRES,
    "mariadb": SkipReason.NO_MARIADB,
    "redis": SkipReason.NO_REDIS,
}

FreshDatabase = Callable[[str], str]
OwnServer = Callable[..., Server]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--no-servers", action="store_true", help="start no database servers; skip the tests that need one"
    )


def pytest_configure(config: pytest.Config) -> None:
    # A shell has what it runs in the background ignore Ctrl-C, and so would every process that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[_URLS] = getattr(config, "workerinput", {}).get(_HANDED_OVER, {})


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workerinput") or config.option.collectonly or config.getoption("--no-servers"):
        return
    fleet = Fleet()
    config.stash[_FLEET] = fleet
    config.stash[_URLS] = fleet.start().urls


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Xdist is about to start a worker: give it the URLs."""
    node.workerinput[_HANDED_OVER] = node.config.stash[_URLS]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave long runs out unless markers were chosen on the command line (``make soak``)."""
    if config.option.markexpr:
        return
    soaks = [item for item in items if item.get_closest_marker("soak")]
    if soaks:
        config.hook.pytest_deselected(items=soaks)
        items[:] = [item for item in items if item not in soaks]


def pytest_unconfigure(config: pytest.Config) -> None:
    if _FLEET in config.stash:
        config.stash[_FLEET].close()


@pytest.fixture(scope="session")
def postgres_url(pytestconfig: pytest.Config) -> str:
    """The run's PostgreSQL server."""
    return _server_url(pytestconfig, "postgres")


@pytest.fixture(scope="session")
def mariadb_url(pytestconfig: pytest.Config) -> str:
    """The run's MariaDB server."""
    return _server_url(pytestconfig, "mariadb")


@pytest.fixture(scope="session")
def redis_url(pytestconfig: pytest.Config) -> str:
    """The run's Redis server."""
    return _server_url(pytestconfig, "redis")


@pytest.fixture
def fresh_database(pytestconfig: pytest.Config, tmp_path: Path) -> Iterator[FreshDatabase]:
    """Call with "sqlite", "postgres", "mariadb" or "redis" for the URL of an empty database."""
    with ExitStack() as afterwards:
        made = 0

        def make(kind: str) -> str:
            nonlocal made
            made += 1
            if kind == "sqlite":
                return f"sqlite:///{tmp_path / f'fresh-{made}.sqlite'}"
            server = _server_url(pytestconfig, kind)
            url = databases_of(server).create(server)
            afterwards.callback(databases_of(server).drop, url)
            return url

        yield make


@pytest.fixture
def own_server(pytestconfig: pytest.Config) -> Iterator[OwnServer]:
    """Call with "postgres", "mariadb" or "redis" (and its class's options) for a server to mistreat."""
    with ExitStack() as afterwards:

        def make(kind: str, **options: Any) -> Server:
            if pytestconfig.getoption("--no-servers"):
                skip(SkipReason.SERVERS_NOT_WANTED)
            if not KINDS[kind].installed():
                skip(_MISSING[kind])
            return afterwards.enter_context(KINDS[kind](**options))

        yield make


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where programs are born that need no interpreter of their own; a start there costs a tenth."""
    with Nursery() as nursery:
        yield nursery


@pytest.fixture(scope="session")
def django_project() -> None:
    """A Django project, of which a process has one: whoever needs other settings patches them."""
    import django  # type: ignore[import-untyped]
    from django.conf import settings  # type: ignore[import-untyped]

    settings.configure(
        ALLOWED_HOSTS=["*"], SECRET_KEY="not one", MIDDLEWARE=["holdfast.web.django.IdempotencyMiddleware"]
    )
    django.setup()


def _server_url(config: pytest.Config, kind: str) -> str:
    if kind not in KINDS:
        raise ValueError(f"There is no kind of server {kind!r}; there are sqlite, {', '.join(KINDS)}.")
    urls = config.stash[_URLS]
    if kind not in urls:
        skip(SkipReason.SERVERS_NOT_WANTED if config.getoption("--no-servers") else _MISSING[kind])
    return urls[kind]

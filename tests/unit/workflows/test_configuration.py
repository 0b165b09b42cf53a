"""What an application is configured by: arguments, then the environment, then defaults; or a YAML file."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import AsyncClient, AsyncHoldfast, Client, Holdfast
from holdfast.errors import ConfigurationError, InvalidURL
from holdfast.testing.world import VirtualWorld
from holdfast.workflows.application.configuration import engine_settings
from holdfast.workflows.application.configuration_file import read_configuration

if TYPE_CHECKING:
    from pathlib import Path

ENVIRONMENT = ("HOLDFAST_DATABASE_URL", "DATABASE_URL")


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)


def test_url_comes_from_the_argument_then_the_environment_then_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine_settings(None, name="shop").url == "sqlite:///shop.sqlite"
    assert engine_settings(None).url == "sqlite:///holdfast.sqlite"
    monkeypatch.setenv("DATABASE_URL", "sqlite:///second.sqlite")
    assert engine_settings(None).url == "sqlite:///second.sqlite"
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", "sqlite:///first.sqlite")
    assert engine_settings(None).url == "sqlite:///first.sqlite"
    assert engine_settings("sqlite:///given.sqlite").url == "sqlite:///given.sqlite"


def test_empty_variable_is_no_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", "")
    monkeypatch.setenv("DATABASE_URL", "sqlite:///second.sqlite")
    assert engine_settings(None).url == "sqlite:///second.sqlite"


def test_defaults_are_the_documented_ones() -> None:
    settings = engine_settings(None)
    assert settings.schema == "holdfast"
    assert settings.lease == 10
    assert settings.executor_id == "local"
    assert settings.connection == {
        "pool_size": 20,
        "pool_timeout": 30,
        "connect_timeout": 10,
        "pooled": True,
        "prepared": True,
        "application_name": "holdfast",
    }


@pytest.mark.parametrize("wrong", [{"lease": 0}, {"lease": -1}, {"max_workflow_threads": 0}, {"max_runs": 0}])
def test_settings_that_make_no_sense_are_refused_by_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ConfigurationError, match=name):
        engine_settings(None, **wrong)


@pytest.mark.parametrize("kind", [Holdfast, AsyncHoldfast, Client, AsyncClient])
def test_unknown_setting_is_refused_with_those_there_are(kind: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"has no setting leese; there are name, .*pool_size"):
        kind("sqlite:///x.sqlite", leese=3)


@pytest.mark.parametrize("kind", [Holdfast, AsyncHoldfast, Client, AsyncClient])
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"serializer": "pickle"}, "serializer is a Serialization, as in .*, not 'pickle'"),
        ({"pool_size": "a"}, "pool_size is a whole number and at least 1, not 'a'"),
        ({"pool_size": 0}, "pool_size is a whole number and at least 1, not 0"),
        ({"pool_timeout": 0}, "pool_timeout must be more than 0"),
        ({"schema": "Tenant-A"}, "name of the schema .* is not allowed"),
        ({"schema": 3}, "schema is a text, not 3: pass '3'"),
        ({"name": 3}, "name is a text, not 3: pass '3'"),
        ({"application_name": None}, "application_name is a text, not None"),
    ],
)
def test_setting_of_every_door_is_refused_where_it_is_made(kind: Any, wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        kind("sqlite:///x.sqlite", **wrong)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"application_version": 2024}, "application_version is a text, not 2024: pass '2024'"),
        ({"application_version": date(2024, 5, 1)}, "application_version is a text, .*: pass '2024-05-01'"),
        ({"application_version": ""}, "application_version has 1 to 255"),
        ({"executor_id": 1}, "executor_id is a text, not 1: pass '1'"),
        ({"executor_id": "x" * 256}, "executor_id has 1 to 255"),
        ({"compatible_versions": "2024-05"}, "compatible_versions are several, not one text: put it in a list"),
        ({"compatible_versions": [2024]}, "Each of compatible_versions is a text, not 2024: pass '2024'"),
        ({"compatible_versions": None}, "compatible_versions are several"),
        ({"mask_fields": "card"}, "mask_fields are several, not one text: put it in a list"),
        ({"max_runs": "many"}, "max_runs is a whole number and at least 1"),
        ({"dead_letter_bytes": "64k"}, "dead_letter_bytes is a whole number and at least 0, not '64k'"),
        ({"dead_letter_bytes": -1}, "dead_letter_bytes is a whole number and at least 0, not -1"),
    ],
)
def test_setting_of_an_application_is_refused_where_it_is_made(wrong: dict[str, Any], told: str) -> None:
    for kind in (Holdfast, AsyncHoldfast):
        with pytest.raises(ConfigurationError, match=told):
            kind("sqlite:///x.sqlite", **wrong)


@pytest.mark.parametrize("kind", [Holdfast, AsyncHoldfast, Client, AsyncClient])
def test_url_that_names_no_database_is_refused_where_it_is_given(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidURL, match="is an empty text: a variable that is not set"):
        kind("")
    with pytest.raises(InvalidURL, match=r"has \$\{DB_URL\} in it.* set HOLDFAST_DATABASE_URL"):
        kind("${DB_URL}")
    with pytest.raises(InvalidURL):
        kind("postgres:/x")
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", "postgresql://me:${PASSWORD}@host/shop")
    with pytest.raises(InvalidURL, match=r"\$\{PASSWORD\}"):
        kind()


def test_world_of_one_loop_is_refused_where_the_loop_is_another() -> None:
    for kind in (Holdfast, Client):
        with pytest.raises(ConfigurationError, match=r"A VirtualWorld belongs to the event loop .* use AsyncHoldfast"):
            kind("sqlite:///x.sqlite", world=VirtualWorld())
    AsyncHoldfast("sqlite:///x.sqlite", world=VirtualWorld())
    AsyncClient("sqlite:///x.sqlite", world=VirtualWorld())


def test_yaml_file_has_the_documented_keys(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.yaml"
    file.write_text(
        "name: my-application\n"
        "system_database_url: postgresql://user:pass@localhost/myapp\n"
        "holdfast_system_schema: durable\n"
        "executor_id: e1\n"
        "application_version: '7'\n"
        "compatible_versions: ['6']\n"
        "lease: 5\n"
        "database:\n"
        "  sys_db_pool_size: 30\n"
        "  db_engine_kwargs:\n"
        "    pool_timeout: 60\n"
        "    connect_args:\n"
        "      connect_timeout: 3\n",
        encoding="utf-8",
    )
    arguments = read_configuration(file)
    assert arguments == {
        "name": "my-application",
        "url": "postgresql://user:pass@localhost/myapp",
        "schema": "durable",
        "executor_id": "e1",
        "application_version": "7",
        "compatible_versions": ["6"],
        "lease": 5,
        "pool_size": 30,
        "pool_timeout": 60,
        "connect_timeout": 3,
    }
    for kind in (Holdfast, AsyncHoldfast):
        settings = kind.from_config(file)._engine.settings
        assert settings.url == "postgresql://user:pass@localhost/myapp"
        assert (settings.connection["pooled"], settings.connection["pool_size"]) == (True, 30)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("nmae: x", "nmae"),
        ("database:\n  pool: 3", r"database\.pool"),
        ("database:\n  db_engine_kwargs:\n    echo: true", r"database\.db_engine_kwargs\.echo"),
        ("- just a list", "keys and values"),
        ("database: 5", "database holds keys and values, not 5"),
        ("database:\n  db_engine_kwargs: [1]", r"database\.db_engine_kwargs holds keys and values"),
    ],
)
def test_yaml_key_that_is_not_known_is_refused_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    file = tmp_path / "holdfast.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=place):
        read_configuration(file)


@pytest.mark.parametrize("text", ["name: [x", "name: x\n  lease: 5", "a: b: hunter2", "\t- x"])
def test_file_that_is_no_yaml_is_refused_with_its_name_and_the_place(tmp_path: Path, text: str) -> None:
    file = tmp_path / "holdfast.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"holdfast\.yaml is no YAML: .*, in line \d+, column \d+") as caught:
        Holdfast.from_config(file)
    assert "hunter2" not in str(caught.value)


def test_texts_in_a_yaml_file_that_are_numbers_are_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.yaml"
    for line in ("application_version: 2024", "executor_id: 1", "compatible_versions: [1.10]", "name: 7"):
        file.write_text(line, encoding="utf-8")
        with pytest.raises(ConfigurationError, match=f"{line.partition(':')[0]} is a text, and .*write it in quotes"):
            Holdfast.from_config(file)


def test_empty_yaml_file_sets_nothing(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.yaml"
    file.write_text("", encoding="utf-8")
    assert read_configuration(file) == {}


def test_secret_in_the_url_is_not_shown(tmp_path: Path) -> None:
    app = Holdfast("postgresql://user:hunter2@localhost/x")
    assert "hunter2" not in repr(app)
    assert "hunter2" not in repr(app._engine)


DOCUMENTED = """
name: my-application
system_database_url: "sqlite:///my.sqlite"
holdfast_system_schema: "tables"
database:
  sys_db_pool_size: 30
  db_engine_kwargs:
    max_overflow: 0
    pool_timeout: 60
    pool_pre_ping: true
    connect_args:
      application_name: shop
      connect_timeout: 5
"""


def test_file_with_every_documented_key_is_read(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.yaml"
    path.write_text(DOCUMENTED)
    assert read_configuration(path) == {
        "name": "my-application",
        "url": "sqlite:///my.sqlite",
        "schema": "tables",
        "pool_size": 30,
        "pool_timeout": 60,
        "application_name": "shop",
        "connect_timeout": 5,
    }


def test_null_pool_in_a_file_drops_the_settings_of_a_pool(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.yaml"
    path.write_text("database:\n  db_engine_kwargs:\n    poolclass: NullPool\n    pool_size: 5\n    pool_timeout: 1\n")
    assert read_configuration(path) == {"pooled": False}


@pytest.mark.parametrize(("key", "value"), [("poolclass", "StaticPool"), ("max_overflow", 10)])
def test_setting_we_cannot_honour_is_refused_with_its_place(tmp_path: Path, key: str, value: object) -> None:
    path = tmp_path / "holdfast.yaml"
    path.write_text(f"database:\n  db_engine_kwargs:\n    {key}: {value}\n")
    with pytest.raises(ConfigurationError, match=f"database.db_engine_kwargs.{key} is"):
        read_configuration(path)

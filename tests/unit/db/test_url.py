"""Reading database URLs, and never showing the password in one."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.db.mysql.tls import TLS, Mode
from holdfast.db.url import DatabaseURL, DialectName
from holdfast.errors import InvalidURL

# Neither end of the password occurs in any message by chance, so a part of it that leaks is seen as well.
_HEAD, _TAIL = "Zq9", "9jX"
_PASSWORDS = st.text(max_size=12).map(lambda middle: f"{_HEAD}{middle}{_TAIL}")
_TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=12)

MALFORMED = [
    "postgresql:/user:{}@h/db",
    "postgresql:user:{}@h/db",
    "postgresql//user:{}@h/db",
    "postgresql;//user:{}@h/db",
    "://user:{}@h/db",
    "//user:{}@h/db",
    "user:{}@h/db",
    "us_er:{}@h/db",
    "./user:{}@h/db",
    "host=h user=u password={} dbname=d",
    "PASSWORD = {}",
    " postgresql://user:{}@h/db",
    "postgresql://user:{}@h/db ",
    "postgresql://user:{}@h/db\n",
    '"postgresql://user:{}@h/db"',
    "oracle://user:{}@h/db",
    "postgresql+nosuchdriver://user:{}@h/db",
    "sqlite+asyncpg://user:{}@h/db",
    "postgresql://user:{}",
    "postgresql://user:{}@",
    "postgresql://user:{}@h",
    "postgresql://user:{}@h/",
    "postgresql://user:{}@h:port/db",
    "postgresql://user:{}@h:0/db",
    "postgresql://user:{}@h:65536/db",
    "postgresql://user:{}@[::1/db",
    "postgresql://user:{}@[::1]5432/db",
    "postgresql://user:{}@[nonsense]/db",
    "postgresql://user:{}@h1,h2/db",
    "postgresql://user:{}@h h/db",
    "postgresql://user:%{}@h/db",
    "postgresql://user:{}%ff@h/db",
    "postgresql://user:{}%00@h/db",
    "postgresql://user:12/{}@h/db",
    "postgresql://user:12?{}@h/db",
    "postgresql://user:12?a={}@h/db",
    "postgresql://user:12#{}@h/db",
    "postgresql://user:{}@h/db/more",
    "postgresql://user:{}@h/db?flag",
    "postgresql://user:{}@h/db?=x",
    "postgresql://user:{}@h/db?a=1&a=2",
    "postgresql://user:{}@h/db?password={}",
    "postgresql:///user:{}@h/db",
    "postgresql:///user:{}",
    "mysql:///user:{}@h/db",
    "sqlite://user:{}@h/db",
    "sqlite:///user:{}@h/db",
    "sqlite:/user:{}@h/db",
]


def _everything_told(error: BaseException) -> str:
    told = [str(error), repr(error), repr(error.args), "".join(traceback.format_exception_only(error))]
    told += [_everything_told(other) for other in (error.__cause__, error.__context__) if other is not None]
    return "\n".join(told)


def _assert_keeps_secret(text: str) -> None:
    try:
        url = DatabaseURL.parse(text)
    except InvalidURL as error:
        told = _everything_told(error)
    else:
        told = f"{url} {url!r} {url.safe}"
    assert _HEAD not in told
    assert _TAIL not in told


@pytest.mark.parametrize("form", MALFORMED)
def test_malformed_url_is_refused_without_its_password(form: str) -> None:
    text = form.replace("{}", f"{_HEAD}secret{_TAIL}")
    with pytest.raises(InvalidURL) as caught:
        DatabaseURL.parse(text)
    told = _everything_told(caught.value)
    assert _HEAD not in told
    assert _TAIL not in told
    assert caught.value.__context__ is None


@given(st.sampled_from([*MALFORMED, "postgresql://user:{}@h/db", "mysql://u@h/db?password={}"]), _PASSWORDS)
@example("postgresql://user:{}@h/db", f"{_HEAD}\ud800{_TAIL}")
def test_password_of_any_characters_is_never_shown(form: str, password: str) -> None:
    _assert_keeps_secret(form.replace("{}", password))


@given(
    st.sampled_from(["postgresql://user", "postgres://user", "mysql+asyncmy://user", "mariadb://"]),
    st.integers(0, 30),
    st.text(max_size=1),
    st.sampled_from(["@host:5432/db", "@[::1]/db?ssl=1", "@/db?host=/run/x"]),
    st.integers(0, 30),
    st.text(max_size=1),
    _PASSWORDS,
)
def test_mistyped_url_never_shows_its_password(
    before: str, at: int, instead: str, after: str, later: int, instead_later: str, password: str
) -> None:
    begin = before[:at] + instead + before[at + 1 :]
    end = after[:later] + instead_later + after[later + 1 :]
    _assert_keeps_secret(f"{begin}:{password}{end}")


@pytest.mark.parametrize("message", ["write", "leave", "keep"])
def test_refusals_name_a_remedy(message: str) -> None:
    texts = {"write": "oracle://h/d", "leave": "postgresql+odd://h/d", "keep": "mysql://h/d?a=1&a=2"}
    with pytest.raises(InvalidURL, match=message):
        DatabaseURL.parse(texts[message])


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann:pw@db.example:6543/shop",
        "postgres://ann:pw@db.example:6543/shop",
        "POSTGRESQL://ann:pw@db.example:6543/shop",
        "postgresql+asyncpg://ann:pw@db.example:6543/shop",
        "postgresql+psycopg2://ann:pw@db.example:6543/shop",
        "postgresql:///shop?host=db.example&port=6543&user=ann&password=pw",
    ],
)
def test_postgres_forms_mean_the_same(text: str) -> None:
    url = DatabaseURL.parse(text)
    assert url == DatabaseURL(DialectName.POSTGRES, "db.example", 6543, "ann", "pw", "shop")
    assert str(url) == url.safe == "postgresql://ann:***@db.example:6543/shop"
    assert repr(url) == "DatabaseURL('postgresql://ann:***@db.example:6543/shop')"


@pytest.mark.parametrize("scheme", ["mysql", "mariadb", "mysql+asyncmy", "mysql+aiomysql", "mariadb+pymysql"])
def test_mysql_forms_mean_the_same(scheme: str) -> None:
    url = DatabaseURL.parse(f"{scheme}://ann@db/shop?charset=utf8mb4")
    assert (url.dialect, url.host, url.port, url.user, url.password) == (
        DialectName.MYSQL,
        "db",
        3306,
        "ann",
        None,
    )
    assert dict(url.options) == {"charset": "utf8mb4"}
    assert url.safe == "mysql://ann@db:3306/shop"


def test_server_url_without_host_leaves_it_to_the_driver() -> None:
    url = DatabaseURL.parse("postgresql:///shop")
    assert (url.host, url.port, url.user, url.database) == (None, 5432, None, "shop")
    assert url.safe == "postgresql:///shop"


def test_login_and_database_are_percent_decoded() -> None:
    url = DatabaseURL.parse("postgresql://a%40b:p%3A%2F%3F%23%40%25%C3%A9@h/my%20shop")
    assert (url.user, url.password, url.database) == ("a@b", "p:/?#@%é", "my shop")


def test_password_with_a_raw_at_sign_ends_at_the_last_one() -> None:
    url = DatabaseURL.parse("postgresql://ann:p@ss@h/db")
    assert (url.password, url.host) == ("p@ss", "h")


def test_empty_password_is_not_a_missing_one() -> None:
    assert DatabaseURL.parse("mysql://root:@h/db").password == ""
    assert DatabaseURL.parse("mysql://root@h/db").password is None


@pytest.mark.parametrize(("text", "host"), [("[::1]", "::1"), ("[fe80::1%25eth0]", "fe80::1%eth0")])
def test_ipv6_host_stands_in_brackets(text: str, host: str) -> None:
    url = DatabaseURL.parse(f"postgresql://ann@{text}:5433/db")
    assert (url.host, url.port) == (host, 5433)
    assert url.safe == f"postgresql://ann@{text}:5433/db"


@pytest.mark.parametrize("text", ["postgresql:///db?host=/run/pg", "postgresql://%2Frun%2Fpg/db"])
def test_postgres_socket_is_the_host(text: str) -> None:
    url = DatabaseURL.parse(text)
    assert url.socket == url.host == "/run/pg"
    assert DatabaseURL.parse(url.secret_text()) == url


def test_mysql_socket_is_an_option() -> None:
    url = DatabaseURL.parse("mysql://root@/db?unix_socket=/run/my.sock")
    assert (url.socket, url.host, dict(url.options)) == (
        "/run/my.sock",
        None,
        {"unix_socket": "/run/my.sock"},
    )


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("sqlite:///relative.db", "relative.db"),
        ("sqlite:////var/absolute.db", "/var/absolute.db"),
        ("sqlite+aiosqlite:///relative.db", "relative.db"),
        ("sqlite:///a%20b.db", "a b.db"),
        ("shop.db", "shop.db"),
        ("./x", "./x"),
        ("/abs/x", "/abs/x"),
        ("a b%20c?.db", "a b%20c?.db"),
        ("./a:b.db", "./a:b.db"),
        ("C:\\data\\shop.db", "C:\\data\\shop.db"),
        ("c:/data/shop.db", "c:/data/shop.db"),
        (Path("folder/shop.db"), "folder/shop.db"),
    ],
)
def test_sqlite_file_is_named_by_url_or_path(text: str | Path, path: str) -> None:
    url = DatabaseURL.parse(text)
    assert (url.dialect, url.path, url.in_memory) == (DialectName.SQLITE, path, False)
    assert DatabaseURL.parse(url.secret_text()) == url


@pytest.mark.parametrize("text", ["sqlite://", "sqlite:///:memory:", ":memory:"])
def test_sqlite_in_memory_has_no_path(text: str) -> None:
    url = DatabaseURL.parse(text)
    assert (url.dialect, url.path, url.in_memory, url.safe) == (DialectName.SQLITE, None, True, "sqlite://")


@pytest.mark.parametrize("text", ["~/shop.db", "sqlite:///~/shop.db"])
def test_tilde_is_the_home_folder(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert DatabaseURL.parse(text).path == "/home/ann/shop.db"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sqlite:///",
        "sqlite:relative.db",
        "sqlite://relative.db",
        "sqlite:///file:x.db",
        "file:x.db",
        "a\x00b",
    ],
)
def test_text_that_names_no_file_is_refused(text: str) -> None:
    with pytest.raises(InvalidURL):
        DatabaseURL.parse(text)


def test_with_database_changes_nothing_else() -> None:
    url = DatabaseURL.parse("postgresql://ann:pw@h:1/one?ssl=on")
    other = url.with_database("two words")
    assert other.secret_text() == "postgresql://ann:pw@h:1/two%20words?ssl=on"
    assert url.database == "one"


@pytest.mark.parametrize(
    "text",
    [
        "mysql://h/db?ssl=true",
        "mysql://h/db?sslmode=require",
        "mysql://h/db?tls=true",
        "mysql://h/db?charset=latin1",
        "mysql://h/db?ssl-mode=PREFERRED",
        "mysql://h/db?ssl-mode=REQUIRED&ssl_mode=DISABLED",
        "mysql://h/db?ssl-mode=disabled&ssl-ca=ca.pem",
        "mysql://h/db?ssl-key=key.pem",
        "sqlite:///shop.db?mode=ro",
        "sqlite://?cache=shared",
    ],
)
def test_option_that_nobody_would_heed_is_refused(text: str) -> None:
    with pytest.raises(InvalidURL, match=r"option|ssl-"):
        DatabaseURL.parse(text)


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("charset=utf8mb4", TLS(Mode.DISABLED)),
        ("ssl-mode=required", TLS(Mode.REQUIRED)),
        ("ssl_mode=VERIFY_CA&ssl_ca=/ca.pem", TLS(Mode.VERIFY_CA, "/ca.pem")),
        ("ssl-ca=/ca.pem", TLS(Mode.VERIFY_IDENTITY, "/ca.pem")),
        ("ssl-cert=/c.pem&ssl-key=/k.pem", TLS(Mode.REQUIRED, None, "/c.pem", "/k.pem")),
    ],
)
def test_mysql_options_ask_for_tls(query: str, asked: TLS) -> None:
    url = DatabaseURL.parse(f"mysql://ann@h/db?{query}")
    assert TLS.of(url.options) == asked
    assert DatabaseURL.parse(url.secret_text()) == url


@pytest.mark.parametrize(("text", "name"), [("shop.db", "other"), ("postgresql://h/db", "")])
def test_with_database_refuses_what_has_no_sense(text: str, name: str) -> None:
    with pytest.raises(InvalidURL):
        DatabaseURL.parse(text).with_database(name)


def test_url_can_be_a_key_and_its_options_cannot_be_changed() -> None:
    url = DatabaseURL.parse("postgresql://h/db?a=1")
    assert {url: 1}[DatabaseURL.parse("postgresql://h/db?a=1")] == 1
    with pytest.raises(TypeError):
        url.options["a"] = "2"  # type: ignore[index]


@given(
    dialect=st.just(DialectName.POSTGRES),  # the only one that takes any option
    host=st.sampled_from([None, "h", "db.example", "10.0.0.1", "::1", "/run/x"]),
    port=st.integers(1, 65535),
    user=st.none() | _TEXTS,
    password=st.none() | st.just("") | _TEXTS,
    database=_TEXTS,
    options=st.dictionaries(
        _TEXTS.filter(lambda name: name not in {"host", "port", "user", "password"}), _TEXTS, max_size=3
    ),
)
def test_secret_text_is_read_back_as_the_same_url(**fields: object) -> None:
    url = DatabaseURL(**fields)  # type: ignore[arg-type]
    assert DatabaseURL.parse(url.secret_text()) == url

"""How MariaDB is reached: over TLS as the URL asks for it and never in the clear instead, and with any password."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from holdfast.db import DatabaseURL, SyncConnectionManager
from holdfast.errors import Unavailable

if TYPE_CHECKING:
    from holdfast.testing.servers.server import Server

FreshDatabase = Callable[[str], str]
_NAMES = {"good": "IP:127.0.0.1", "other": "DNS:elsewhere.example"}


@pytest.fixture(scope="module")
def certificates() -> Iterator[Path]:
    """A folder that servers can read, with certificates that vouch for themselves: one good, one of another host."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        for name, host in _NAMES.items():
            files = ["-keyout", f"{path / name}.key", "-out", f"{path / name}.pem"]
            subject = ["-subj", "/CN=test", "-addext", f"subjectAltName={host}"]
            key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
            subprocess.run(["openssl", "req", "-x509", *key, *files, *subject], check=True, capture_output=True)
            (path / f"{name}.key").chmod(0o644)
        yield path


def cipher(url: str) -> str:
    """Return by which cipher a connection is protected; nothing if it is in the clear."""
    with SyncConnectionManager(url) as manager:
        [row] = manager.fetch("SHOW STATUS LIKE 'Ssl_cipher'")
    return str(row["Value"])


def refusal(url: str) -> str:
    with pytest.raises(Unavailable) as refused, SyncConnectionManager(url):
        pass
    return str(refused.value)


def server_with(own_server: Callable[..., Server], certificate: Path) -> str:
    files = {"ssl-cert": f"{certificate}.pem", "ssl-key": f"{certificate}.key"}
    return own_server("mariadb", settings=files).url


def test_tls_is_used_as_the_url_asks_for_it(own_server: Callable[..., Server], certificates: Path) -> None:
    url = server_with(own_server, certificates / "good")
    ca = certificates / "good.pem"
    assert cipher(url) == ""
    assert cipher(f"{url}?ssl-mode=REQUIRED")
    assert cipher(f"{url}?ssl-mode=VERIFY_CA&ssl-ca={ca}")
    assert cipher(f"{url}?ssl_ca={ca}")
    assert "does not agree with us on TLS" in refusal(f"{url}?ssl-mode=VERIFY_CA")  # known to no authority
    assert "does not agree with us on TLS" in refusal(f"{url}?ssl-ca={certificates / 'other.pem'}")
    assert "cannot be read" in refusal(f"{url}?ssl-ca={certificates / 'none.pem'}")


def test_certificate_of_another_host_is_refused_where_it_is_looked_at(
    own_server: Callable[..., Server], certificates: Path
) -> None:
    url = server_with(own_server, certificates / "other")
    ca = certificates / "other.pem"
    assert cipher(f"{url}?ssl-mode=VERIFY_CA&ssl-ca={ca}")
    assert "does not agree with us on TLS" in refusal(f"{url}?ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}")
    with SyncConnectionManager(url) as manager:
        manager.execute("SET GLOBAL require_secure_transport = ON")
    assert "takes nobody without TLS (ssl-mode=REQUIRED in the URL)" in refusal(url)


def test_server_without_tls_is_not_spoken_to_in_the_clear(fresh_database: FreshDatabase) -> None:
    url = fresh_database("mariadb")
    error = refusal(f"{url}?ssl-mode=REQUIRED")
    assert "Check that it speaks TLS" in error
    assert (DatabaseURL.parse(url).password or "?") not in error


@pytest.mark.parametrize("password", ["é", "пароль", "p@s:w/o?r#d %41&=+'\\"])
def test_password_of_any_characters_logs_in(password: str, fresh_database: FreshDatabase) -> None:
    url = DatabaseURL.parse(fresh_database("mariadb"))
    with SyncConnectionManager(url.secret_text()) as manager:
        manager.execute("DROP USER IF EXISTS odd@'127.0.0.1'")
        manager.execute("CREATE USER odd@'127.0.0.1' IDENTIFIED BY ?", password)
        try:
            odd = f"mysql://odd:{quote(password, safe='')}@127.0.0.1:{url.port}/information_schema"
            with SyncConnectionManager(odd) as other:
                assert other.fetch("SELECT 1 AS one") == [{"one": 1}]
        finally:
            manager.execute("DROP USER odd@'127.0.0.1'")

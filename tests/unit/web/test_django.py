"""The Django middleware, in a project of one view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.conf import settings  # type: ignore[import-untyped]
from django.core.exceptions import ImproperlyConfigured  # type: ignore[import-untyped]
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse  # type: ignore[import-untyped]
from django.test import Client  # type: ignore[import-untyped]
from django.urls import path  # type: ignore[import-untyped]

from holdfast.errors import MisuseError
from holdfast.web.django import IdempotencyMiddleware

if TYPE_CHECKING:
    from holdfast.stores import SyncIdempotencyStore

calls: list[bytes] = []
KEY = {"Idempotency-Key": '"k"'}


def pay(request: Any) -> HttpResponse:
    calls.append(request.body)
    if request.GET.get("fail"):
        raise ZeroDivisionError
    response = JsonResponse({"order": len(calls)}, status=201)
    response.set_cookie("session", "secret")
    return response


def stream(request: Any) -> StreamingHttpResponse:
    calls.append(b"stream")
    return StreamingHttpResponse(iter([b"a", b"b"]))


def tenant(request: Any) -> str | None:
    found: str | None = request.headers.get("X-Tenant")
    return found


def upload(request: Any) -> JsonResponse:
    calls.append(b"upload")
    return JsonResponse({"bytes": request.FILES["file"].size if request.FILES else len(request.read())})


urlpatterns = [path("pay", pay), path("stream", stream), path("upload", upload)]


@pytest.fixture
def client(django_project: None, store: SyncIdempotencyStore, monkeypatch: pytest.MonkeyPatch) -> Client:
    calls.clear()
    given = {"store": store, "required": ["/pay"], "client": tenant}
    monkeypatch.setattr(settings, "HOLDFAST_IDEMPOTENCY", given, raising=False)
    monkeypatch.setattr(settings, "ROOT_URLCONF", __name__, raising=False)
    return Client(raise_request_exception=False)


def post(client: Client, url: str = "/pay", body: str = "1", **headers: str) -> Any:
    return client.post(url, body, content_type="text/plain", headers={**KEY, **headers})


def test_retry_gets_the_stored_answer(client: Client) -> None:
    first, again = post(client), post(client, **{"Idempotency-Key": "k"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content == b'{"order": 1}'
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["content-type"] == first.headers["content-type"] == "application/json"
    assert ("session" in first.cookies, "session" in again.cookies) == (True, False)
    assert calls == [b"1"]


def test_refusals_are_problems(client: Client) -> None:
    assert post(client).status_code == 201
    refused = [post(client, body="2"), client.post("/pay", "1", content_type="text/plain")]
    assert [answer.status_code for answer in refused] == [422, 400]
    assert {answer.headers["content-type"] for answer in refused} == {"application/problem+json"}
    assert client.get("/pay").status_code == 201


def test_upload_that_django_takes_is_taken_with_a_key_too(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "DATA_UPLOAD_MAX_MEMORY_SIZE", 1000, raising=False)
    large = b"x" * 2000
    boundary = {"content_type": "multipart/form-data; boundary=B"}
    form = b'--B\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n' + large + b"\r\n--B--\r\n"
    for key, body, given in (("form", form, boundary), ("read", large, {"content_type": "text/plain"})):
        headers = {"Idempotency-Key": key}
        answers = [client.post("/upload", body, headers=headers, **given) for _ in range(2)]
        assert [(each.status_code, each.json()) for each in answers] == [(200, {"bytes": len(large)})] * 2
    assert calls == [b"upload"] * 2
    assert client.post("/pay", large, content_type="text/plain", headers=KEY).status_code == 400  # its own limit stays


def reads_forms(get_response: Any) -> Any:
    """A middleware that reads forms, and with them the files."""

    def middleware(request: Any) -> Any:
        assert request.POST is not None
        return get_response(request)

    return middleware


def test_upload_that_was_read_before_is_a_mistake_that_is_told(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = settings.MIDDLEWARE
    form = b'--B\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nx\r\n--B--\r\n'
    given = {"content_type": "multipart/form-data; boundary=B", "headers": KEY}
    monkeypatch.setattr(settings, "MIDDLEWARE", [f"{__name__}.reads_forms", *ours])
    with pytest.raises(MisuseError, match="MIDDLEWARE"):
        Client().post("/upload", form, **given)
    assert Client().post("/upload", "a=b", content_type="application/x-www-form-urlencoded").status_code == 200
    monkeypatch.setattr(settings, "MIDDLEWARE", [*ours, f"{__name__}.reads_forms"])
    assert Client().post("/upload", form, **given).json() == {"bytes": 1}


def test_request_that_is_too_large_is_a_problem(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.HOLDFAST_IDEMPOTENCY, "max_body_bytes", 10)
    refused = post(client, body="x" * 11)
    assert (refused.status_code, refused.headers["content-type"]) == (413, "application/problem+json")
    assert post(client, body="x" * 10).status_code == 201


def test_view_that_fails_frees_the_key(client: Client) -> None:
    assert [post(client, "/pay?fail=1").status_code for _ in range(2)] == [500, 500]
    assert len(calls) == 2


def test_keys_of_clients_never_meet(client: Client) -> None:
    assert post(client, **{"X-Tenant": "a"}).content == b'{"order": 1}'
    assert post(client, **{"X-Tenant": "b"}).content == b'{"order": 2}'
    assert post(client, **{"X-Tenant": "a"}).content == b'{"order": 1}'


def test_stream_is_carried_out_once(client: Client) -> None:
    assert post(client, "/stream").getvalue() == b"ab"
    assert post(client, "/stream").status_code == 409
    assert calls == [b"stream"]


def test_project_without_a_store_is_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "HOLDFAST_IDEMPOTENCY", {})
    with pytest.raises(ImproperlyConfigured, match="store"):
        IdempotencyMiddleware(lambda request: HttpResponse())
    monkeypatch.setattr(settings, "HOLDFAST_IDEMPOTENCY", {"store": "sqlite:///x.db", "client": f"{__name__}.tenant"})
    assert IdempotencyMiddleware(lambda request: HttpResponse())._client is not None

"""What is decided about requests with an idempotency key."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.stores.keys import LONGEST_KEY
from holdfast.web import IdempotencyMiddleware, WSGIIdempotencyMiddleware
from holdfast.web.core import UNSTORED_HEADERS, Answer, Refused, Request, Rules, store_key


def request(*keys: str, method: str = "POST", path: str = "/pay") -> Request:
    return Request(method, path, b"", [("idempotency-key", key) for key in keys])


@pytest.mark.parametrize(
    ("given_key", "key"),
    [
        ('"8e03978e"', "8e03978e"),
        ("8e03978e", "8e03978e"),
        ('  "a b" ', "a b"),
        (r'"a\"b\\c"', r'a"b\c'),
        ('"a";v=1', "a"),
        ("order 17/x:y", "order 17/x:y"),
        ("x" * 255, "x" * 255),
    ],
)
def test_key_is_read_quoted_or_bare(given_key: str, key: str) -> None:
    assert Rules().key_of(request(given_key)) == key


@pytest.mark.parametrize("keys", [("",), ("   ",), ('""',), ('"a',), ("ä",), ("a\nb",), ("a", "b"), ("x" * 256,)])
def test_key_that_cannot_be_read_is_refused(keys: tuple[str, ...]) -> None:
    with pytest.raises(Refused) as refused:
        Rules().key_of(request(*keys))
    answer = refused.value.answer
    assert answer.status == 400
    assert ("content-type", "application/problem+json") in answer.headers
    assert json.loads(answer.body)["status"] == 400


def test_missing_key_is_refused_only_where_it_is_required() -> None:
    rules = Rules(required=["/payments/*"], docs_url="https://example.com/keys")
    assert rules.key_of(request(path="/notes/1")) is None
    with pytest.raises(Refused) as refused:
        rules.key_of(request(path="/payments/1"))
    assert refused.value.answer.status == 400
    assert ("link", '<https://example.com/keys>; rel="describedby"') in refused.value.answer.headers
    assert json.loads(refused.value.answer.body)["type"] == "https://example.com/keys"


def test_routes_are_told_by_a_flag_by_patterns_or_by_a_function() -> None:
    by_function = Rules(required=lambda method, path: method == "PATCH" and path == "/x")
    assert by_function.key_of(request(path="/x")) is None
    with pytest.raises(Refused):
        by_function.key_of(request(method="PATCH", path="/x"))
    with pytest.raises(Refused):
        Rules(required=True).key_of(request())
    assert Rules(required=True, exclude=["/health*"]).key_of(request("k", path="/healthz")) is None


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "TRACE", "CONNECT"])
def test_other_methods_are_left_alone(method: str) -> None:
    assert Rules(required=True).key_of(request("", method=method)) is None


def test_settings_that_cannot_be_meant_are_refused() -> None:
    with pytest.raises(ValueError, match="GET"):
        Rules(methods=frozenset({"GET", "POST"}))
    with pytest.raises(ValueError, match="save"):
        Rules(save="sometimes")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("save", "kept"),
    [
        ("final", {200, 201, 302, 400, 404, 422}),
        ("success", {200, 201}),
        ("all", {200, 201, 302, 400, 404, 408, 422, 425, 429, 500, 503}),
        (lambda status: status == 404, {404}),
    ],
)
def test_answers_are_stored_by_their_status(save: object, kept: set[int]) -> None:
    rules = Rules(save=save)  # type: ignore[arg-type]
    statuses = {200, 201, 302, 400, 404, 408, 422, 425, 429, 500, 503}
    assert {status for status in statuses if rules.saves(status)} == kept


@given(
    st.binary(max_size=300),
    st.lists(st.tuples(st.sampled_from(["a", "b", "content-type"]), st.text("xyz", max_size=5))),
)
def test_answer_comes_back_byte_for_byte(body: bytes, headers: list[tuple[str, str]]) -> None:
    rules = Rules()
    data, kept = json.loads(json.dumps(rules.packed(Answer(201, headers, body))))
    again = rules.unpacked(201, data, kept)
    assert (again.status, again.body) == (201, body)
    assert sorted(again.headers) == sorted([*headers, ("idempotency-replayed", "true")])
    for name in ("a", "b"):
        assert [value for each, value in again.headers if each == name] == [v for each, v in headers if each == name]


def test_secrets_and_headers_of_one_exchange_are_not_stored() -> None:
    secret = [(name, "secret") for name in sorted(UNSTORED_HEADERS)]
    assert {"set-cookie", "authorization", "www-authenticate", "date"} <= UNSTORED_HEADERS
    _, headers = Rules().packed(Answer(200, [*secret, ("x-kept", "1")], b""))
    assert headers == {"x-kept": "1"}
    _, headers = Rules(unstored_headers=UNSTORED_HEADERS | {"x-kept"}).packed(Answer(200, [("x-kept", "1")], b""))
    assert headers == {}


def test_answer_that_is_too_large_is_remembered_without_its_body() -> None:
    rules = Rules(max_response_bytes=10)
    data, headers = rules.packed(Answer(200, [], b"x" * 11))
    assert data is None
    again = rules.unpacked(200, data, headers)
    assert again.status == 409
    assert b"carried out" in again.body


def test_keys_of_clients_never_meet() -> None:
    clients = (None, "", "x", "y", "\xe9", "\udcc3\udca9", "\ud800")
    keys = {store_key(key, client) for key in ("a", "b") for client in clients}
    assert len(keys) == 14
    assert len(store_key("x" * 255, "z" * 1000)) <= 512


@pytest.mark.parametrize("client", [0, 5, True, b"x", ["x"]], ids=repr)
def test_client_that_is_no_text_is_refused(client: Any) -> None:
    with pytest.raises(TypeError, match=f"not by {type(client).__name__}"):
        store_key("k", client)


async def _whose(scope: Any) -> str:
    return "x"


@pytest.mark.parametrize("middleware", [IdempotencyMiddleware, WSGIIdempotencyMiddleware])
@pytest.mark.parametrize("client", ["acme", 5, _whose], ids=["text", "number", "async"])
def test_client_that_tells_nobody_is_refused_where_it_is_given(middleware: Any, client: Any) -> None:
    with pytest.raises(ValueError, match="client is a function"):
        middleware(None, store="keys.db", client=client)


@pytest.mark.parametrize("cut", range(60))
def test_nobodys_key_is_no_clients_whatever_it_says(cut: int) -> None:
    kept = store_key("order-17", "acme")
    assert store_key(kept[cut:], None) != kept
    assert store_key(kept[cut:], "other") != kept


@pytest.mark.parametrize(
    "wrong",
    [
        {"exclude": "/webhooks/*"},
        {"required": "/payments/*"},
        {"required": [5]},
        {"methods": "POST"},
        {"methods": ["POST", "get"]},
        {"include_headers": "x-tenant"},
        {"unstored_headers": "x-secret"},
        {"header": ""},
        {"header": "Idempotency_Key"},
        {"header": None},
        {"ttl_seconds": 0},
        {"ttl_seconds": float("nan")},
        {"ttl_seconds": 1e12},
        {"lease_seconds": 0},
        {"lease_seconds": "30"},
        {"wait_seconds": -1},
        {"max_key_length": 472},
        {"max_key_length": 0},
        {"max_body_bytes": "1"},
        {"max_response_bytes": -1},
    ],
)
def test_setting_that_means_something_else_than_it_says_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong)) + "|Safe methods"):
        Rules(**wrong)


def test_settings_are_taken_in_any_case_and_from_any_collection() -> None:
    rules = Rules(
        methods=["post"],
        unstored_headers={"X-Secret"},
        include_headers=["X-Tenant"],
        required=(path for path in ["/pay"]),
        max_key_length=471,
        ttl_seconds=timedelta(hours=1),  # type: ignore[arg-type]
    )
    for _ in range(2):
        with pytest.raises(Refused):
            rules.key_of(request())
    assert rules.packed(Answer(200, [("x-secret", "1")], b""))[1] == {}
    assert (rules.include_headers, rules.ttl_seconds) == (("x-tenant",), 3600)
    longest = store_key("x" * 471, "somebody")
    assert len(longest) == LONGEST_KEY

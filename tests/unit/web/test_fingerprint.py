"""Fingerprints of requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.web import RequestFingerprinter

REQUESTS = st.tuples(
    st.sampled_from(["POST", "PUT"]),
    st.text(max_size=8),
    st.one_of(st.none(), st.text(max_size=5)),
    st.binary(max_size=5),
)


def test_fingerprint_is_sha256_and_the_same_in_every_process() -> None:
    made = RequestFingerprinter().create_fingerprint("post", "/pay", {"b": "2", "a": "1"}, {"y": 1, "x": [None]})
    assert made == RequestFingerprinter().create_fingerprint(
        "POST", "/pay", {"a": "1", "b": "2"}, {"x": [None], "y": 1}
    )
    assert len(made) == 64
    assert int(made, 16)


def test_every_part_counts() -> None:
    make = RequestFingerprinter().create_fingerprint
    made = {
        make("POST", "/pay"),
        make("PUT", "/pay"),
        make("POST", "/pay2"),
        make("POST", "/pay", "a=1"),
        make("POST", "/pay", None, "a=1"),
        make("POST", "/pay", None, {"a": 1}),
        make("POST", "/pay", None, {"a": None}),
    }
    assert len(made) == 7


def test_empty_counts_as_none() -> None:
    make = RequestFingerprinter().create_fingerprint
    assert make("POST", "/", None, None) == make("POST", "/", {}, b"") == make("POST", "/", "", "")


def test_bodies_that_say_nothing_are_no_empty_ones() -> None:
    make = RequestFingerprinter().create_fingerprint
    bodies: list[object] = [None, 0, False, [], {"a": None}]
    assert len({make("POST", "/pay", body=body) for body in bodies}) == len(bodies)


def test_chosen_headers_count_in_any_case_and_others_do_not() -> None:
    make = RequestFingerprinter(include_headers=["X-Tenant"]).create_fingerprint
    assert make("POST", "/", headers={"x-tenant": "a"}) == make("POST", "/", headers={"X-TENANT": "a", "x": "y"})
    assert make("POST", "/", headers={"x-tenant": "a"}) != make("POST", "/", headers={"x-tenant": "b"})
    assert RequestFingerprinter().create_fingerprint("POST", "/", headers={"x-tenant": "a"}) == make("POST", "/")


@given(REQUESTS, REQUESTS)
def test_different_requests_have_different_fingerprints(
    one: tuple[str, str, str | None, bytes], two: tuple[str, str, str | None, bytes]
) -> None:
    make = RequestFingerprinter().create_fingerprint
    same = (one[0], one[1], one[2] or "", one[3]) == (two[0], two[1], two[2] or "", two[3])
    assert (make(*one) == make(*two)) is same

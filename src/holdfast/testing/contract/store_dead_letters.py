"""What every repository of failed operations must do, in any colour: making, reading, changing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import CannotSerialize, TooLong
from holdfast.testing.contract.store_dead_letters_stage import ALL_STATUSES, made, play

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

_SOME = {"text": "ü\0", "list": [1, 2.5, None, {"deep": True}]}


class DeadLetterRecords:
    """Making, reading and changing single operations."""

    def test_operation_that_is_made_is_read_as_it_was_given(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            given = {
                "error_message": "no answer", "error_code": "E42", "entity_type": "order", "entity_id": "17",
                "entity_refs": {"order": 17}, "user_id": 5, "snapshot_data": _SOME, "request_data": {"a": 1},
                "response_data": {"b": [2]}, "metadata": {"c": "d"}, "retry_count": 1, "max_retries": 7,
                "next_action_hint": "wait", "recommended_action": "replay", "workflow_id": "run-1",
                "payload": ["x", 1], "error": "Traceback\nno answer", "retry_delay": 2.5,
                "expires_at": datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
            }  # fmt: skip
            record = await letters.create("payments", "timeout", **given)
            assert (record.domain, record.failure_type, record.status) == ("payments", "timeout", "pending")
            assert {name: getattr(record, name) for name in given} == given
            assert record.created_at == record.updated_at == record.next_retry_at
            assert record.created_at.utcoffset() == timedelta(0)
            assert (record.is_pending, record.is_resolved, record.can_retry) == (True, False, True)
            assert await letters.get_by_id(record.id) == record

        play(store_venue, scene)

    def test_operation_with_nothing_given_has_empty_values(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("d", "t")
            assert (record.error_message, record.error_code, record.retry_count, record.max_retries) == ("", "", 0, 2)
            assert record.entity_refs == record.snapshot_data == record.request_data == {}
            assert record.response_data == record.metadata == {}
            assert (record.entity_type, record.entity_id, record.user_id, record.expires_at) == (None,) * 4
            assert (record.last_retry_at, record.resolved_at, record.resolved_by_id) == (None, None, None)
            assert (record.next_retry_at, record.replay_token, record.payload) == (None, None, None)
            assert await letters.get_by_id(record.id) == record
            of_no_run = await letters.create("d", "t", workflow_id="")
            assert (of_no_run.workflow_id, (await letters.get_by_id(of_no_run.id)).workflow_id) == (None, None)

        play(store_venue, scene)

    def test_zero_and_empty_text_are_kept(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            made_ = await letters.create("", "", max_retries=0, user_id=0, entity_type="", entity_id="")
            record = await letters.get_by_id(made_.id)
            assert (record.max_retries, record.user_id, record.entity_type, record.entity_id) == (0, 0, "", "")
            assert (record.domain, record.failure_type) == ("", "")
            await letters.update_status(record.id, "resolved", resolved_by_id=0)
            assert (await letters.get_by_id(record.id)).resolved_by_id == 0

        play(store_venue, scene)

    def test_id_of_any_shape_that_is_not_there_is_none(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            for strange in ("", "17", "no such id", "x" * 5000, "a\0b", "\ud800", "%", "ü"):
                assert await letters.get_by_id(strange) is None
                assert await letters.update_status(strange, "resolved") is False
                assert await letters.increment_retry_count(strange) is False
                assert await letters.mark_as_resolved(strange, "manual") is False
                assert await letters.delete(strange) is False
                assert await letters.try_acquire_for_replay(strange, 3) is None
                assert await letters.complete_replay(strange, True) is False

        play(store_venue, scene)

    def test_record_that_is_changed_by_its_reader_stays_as_it_is(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            given = {"list": [1]}
            record = await letters.create("d", "t", request_data=given)
            given["list"].append(2)
            for mapping in (record.request_data, record.metadata, (await letters.get_by_id(record.id)).metadata):
                mapping["new"] = 1
            record.request_data["list"].append(3)
            again = await letters.get_by_id(record.id)
            assert (again.request_data, again.metadata) == ({"list": [1]}, {})
            taken = await letters.try_acquire_for_replay(record.id, 1)
            taken.request_data["list"].append(4)
            taken.metadata["newer"] = 1
            assert await letters.complete_replay(record.id, False)
            again = await letters.get_by_id(record.id)
            assert (again.request_data, again.metadata) == ({"list": [1]}, {})

        play(store_venue, scene)

    def test_value_that_cannot_be_kept_is_refused_with_its_path(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            with pytest.raises(CannotSerialize, match=r"request_data.*\$\.deep\[1\]"):
                await letters.create("d", "t", request_data={"deep": [1, object()]})
            for name in ("entity_refs", "snapshot_data", "request_data", "response_data", "metadata"):
                with pytest.raises(TypeError, match=f"{name}.*dict"):
                    await letters.create("d", "t", **{name: [1]})
            with pytest.raises(TooLong, match="domain"):
                await letters.create("d" * 256, "t")
            with pytest.raises(ValueError, match="failure type"):
                await letters.create("d", "t\0")
            with pytest.raises(ValueError, match="time zone"):
                await letters.create("d", "t", expires_at=datetime(2030, 1, 1))  # noqa: DTZ001 -- that is the point
            with pytest.raises(ValueError, match="user_id"):
                await letters.create("d", "t", user_id=2**63)
            with pytest.raises(ValueError, match="no status 'done'"):
                await letters.update_status("x", "done")
            assert await letters.count() == 0

        play(store_venue, scene)

    def test_error_with_characters_that_no_database_keeps_is_not_lost(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("d", "t", "a\0b\ud800c")
            assert (await letters.get_by_id(record.id)).error_message == record.error_message == "a\ufffdb?c"

        play(store_venue, scene)

    def test_keys_that_differ_in_case_or_a_trailing_space_are_different(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            for domain in ("shop", "Shop", "shop "):
                await letters.create(domain, "t")
            assert await letters.count(domain="shop") == len(await letters.find(domain="shop")) == 1
            assert (await letters.get_statistics())["by_domain"] == {"shop": 1, "Shop": 1, "shop ": 1}

        play(store_venue, scene)

    def test_status_may_become_any_other_and_empty_values_are_kept(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            [record] = await made(letters, ground, "d", recommended_action="replay")
            assert await letters.update_status(record.id, "reviewing", "manual", "looking", 7)
            assert await letters.update_status(record.id, "rejected")
            read = await letters.get_by_id(record.id)
            assert (read.status, read.resolution_type, read.resolution_note) == ("rejected", "manual", "looking")
            assert (read.resolved_by_id, read.recommended_action) == (7, "replay")
            assert read.updated_at > record.updated_at
            assert await letters.update_status(record.id, "pending", recommended_action="escalate")
            assert (await letters.get_by_id(record.id)).recommended_action == "escalate"
            for status in ALL_STATUSES:
                assert await letters.update_status(record.id, status)
                assert (await letters.get_by_id(record.id)).status == status

        play(store_venue, scene)

    def test_resolving_notes_the_time_and_leaving_it_keeps_that(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            first, second = await made(letters, ground, "d", "d")
            assert await letters.update_status(first.id, "resolved")
            assert await letters.mark_as_resolved(second.id, "manual_fix", "by hand", 3)
            one, two = await letters.get_by_id(first.id), await letters.get_by_id(second.id)
            assert one.resolved_at is not None
            assert (two.status, two.resolution_type, two.resolution_note) == ("resolved", "manual_fix", "by hand")
            assert (two.resolved_by_id, two.is_resolved) == (3, True)
            await letters.update_status(first.id, "pending")
            assert (await letters.get_by_id(first.id)).resolved_at == one.resolved_at

        play(store_venue, scene)

    def test_counting_a_retry_changes_no_status_even_at_the_cap(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("d", "t", max_retries=1)
            for count in (1, 2, 3):
                assert await letters.increment_retry_count(record.id)
                read = await letters.get_by_id(record.id)
                assert (read.status, read.retry_count) == ("pending", count)
                assert read.last_retry_at is not None

        play(store_venue, scene)

    def test_bulk_update_counts_each_operation_once(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            one, two, other = await made(letters, ground, "d", "d", "d")
            assert await letters.bulk_update_status([one.id, one.id, "nobody", two.id], "rejected") == 2
            assert await letters.bulk_update_status([], "rejected") == 0
            statuses = [(await letters.get_by_id(each.id)).status for each in (one, two, other)]
            assert statuses == ["rejected", "rejected", "pending"]

        play(store_venue, scene)

    def test_deleting_says_whether_it_was_there(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("d", "t")
            assert await letters.delete(record.id) is True
            assert await letters.delete(record.id) is False
            assert await letters.get_by_id(record.id) is None
            assert await letters.count() == 0

        play(store_venue, scene)


__all__ = ["DeadLetterRecords"]

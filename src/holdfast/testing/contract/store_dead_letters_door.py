"""What no repository of failed operations may let in, in any colour, and what it answers to what cannot be there."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from holdfast.errors import InvalidDuration, InvalidKey, TooLong
from holdfast.stores import DLQCompressedEntry
from holdfast.testing.contract.store_dead_letters_stage import ids, play

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.testing.contract.store_ground import Ground, StoreVenue

_SEEN = datetime(2030, 1, 1, 12, tzinfo=UTC)
_ENTRY = DLQCompressedEntry(
    id="mine", domain="shop", failure_type="t", error_code="", count=7, first_seen=_SEEN, last_seen=_SEEN
)
_WORDS = ("a\0b", "half \ud800")


class _Word(str, Enum):  # noqa: UP042 -- a text that is written otherwise than it reads
    SHOP = "shop"
    TIMEOUT = "timeout"
    RESOLVED = "resolved"
    STALE = "stale"


class _Day(datetime):
    """A time of a class of its own, as some libraries have."""


class DeadLetterDoor:
    """All backends take the same, and refuse the same by its name; what is refused has changed nothing."""

    def test_text_that_is_none_is_refused_by_its_name(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            given = ("error_message", "error", "entity_type", "entity_id", "next_action_hint", "recommended_action")
            for name in given:
                for value in (17, ValueError("x")):
                    with pytest.raises(TypeError, match=f"{name} of a dead letter is text, not"):
                        await letters.create("d", "t", **{name: value})
            with pytest.raises(TypeError, match="error_message"):
                await letters.create("d", "t", None)
            assert await letters.count() == 0
            record = await letters.create("d", "t")
            for name in ("resolution_type", "resolution_note", "recommended_action"):
                with pytest.raises(TypeError, match=name):
                    await letters.update_status(record.id, "resolved", **{name: 5})
            with pytest.raises(TypeError, match="note"):
                await letters.complete_replay(record.id, True, note=5)
            assert (await letters.get_by_id(record.id)).status == "pending"
            assert await letters.update_status(record.id, "resolved", None, None, None, None)

        play(store_venue, scene)

    def test_what_says_which_are_meant_is_never_left_out(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("shop", "t")
            for call in ("get_pending_by_domain", "get_pending_count_by_domain", "count_by_domain"):
                with pytest.raises(TypeError, match="domain of a dead letter is text, not NoneType"):
                    await getattr(letters, call)(None)
            with pytest.raises(TypeError, match="status of a dead letter is text, not NoneType"):
                await letters.find_by_status(None)
            with pytest.raises(TypeError, match="sla_thresholds is a dict"):
                await letters.find_sla_breached(_SEEN, None)
            for call, more in (("bulk_update_status", ("archived",)), ("purge_archived", ()), ("acquire_many", ())):
                with pytest.raises(TypeError, match=r"ids are several, .* pass \[id\]"):
                    await getattr(letters, call)(record.id, *more)
            assert await letters.bulk_update_status((record.id, record.id), "archived") == 1
            assert await letters.purge_archived([record.id, record.id]) == 1
            with pytest.raises(ValueError, match="There is no status 'new' of a summary; there are active, stale"):
                await letters.update_compressed_status("mine", "new")

        play(store_venue, scene)

    def test_member_of_an_enum_is_the_text_that_it_is(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create(_Word.SHOP, _Word.TIMEOUT, _Word.TIMEOUT, _Word.TIMEOUT)
            assert [type(each) for each in (record.domain, record.failure_type, record.error_code)] == [str, str, str]
            for domain, kind in (("shop", "timeout"), (_Word.SHOP, _Word.TIMEOUT), (_Word.SHOP, None)):
                assert ids(await letters.find(domain=domain, failure_type=kind)) == [record.id]
                assert await letters.count(domain=domain, failure_type=kind) == 1
            assert await letters.update_status(record.id, _Word.RESOLVED, _Word.TIMEOUT)
            assert await letters.get_facet_counts() == {"by_status": {"resolved": 1}, "by_domain": {"shop": 1}}
            read = await letters.get_by_id(record.id)
            assert [type(each) for each in (read.status, read.resolution_type)] == [str, str]
            assert await letters.compress_and_evict_oldest(1, _Word.SHOP) == 1
            [entry] = await letters.get_compressed_entries(_Word.SHOP)
            assert await letters.update_compressed_status(entry.id, _Word.STALE)
            assert [each.id for each in await letters.get_compressed_entries("shop", _Word.STALE)] == [entry.id]

        play(store_venue, scene)

    def test_operation_is_stored_as_it_is_returned(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            for delay in (0.0004, 1.23456, timedelta(microseconds=1499)):
                record = await letters.create("d", "t", retry_delay=delay, expires_at=_Day(2030, 1, 1, tzinfo=UTC))
                assert await letters.get_by_id(record.id) == record
                assert (type(record.expires_at), record.expires_at) == (datetime, datetime(2030, 1, 1, tzinfo=UTC))

        play(store_venue, scene)

    def test_filter_that_cannot_match_finds_and_changes_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            await letters.create("shop", "t", retry_delay=1)
            await letters.store_compressed_entry(_ENTRY)
            for word in _WORDS:
                for name in ("status", "domain", "failure_type"):
                    assert await letters.find(**{name: word}) == await letters.find_page(**{name: word}) == []
                    assert await letters.count(**{name: word}) == 0
                assert await letters.get_pending_by_domain(word) == await letters.find_replayable(3, word) == []
                assert await letters.get_oldest_ids(1, word) == await letters.acquire_due(domain=word) == []
                assert await letters.evict_oldest(1, word) == await letters.compress_and_evict_oldest(1, word) == 0
                assert await letters.get_compressed_entries(word) == []
                assert await letters.get_compressed_entries(status=word) == []
                assert not await letters.update_compressed_status(word, "stale")
            assert await letters.count(status="pending") == 1

        play(store_venue, scene)

    def test_filter_that_is_no_text_is_refused_and_never_means_all(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            await letters.create("shop", "t", retry_delay=1)
            calls: tuple[Callable[[], Any], ...] = (
                lambda: letters.find(domain=0),
                lambda: letters.find_page(domain=0),
                lambda: letters.count(domain=0),
                lambda: letters.get_facet_counts(domain=0),
                lambda: letters.get_oldest_ids(1, 0),
                lambda: letters.acquire_due(domain=0),
                lambda: letters.evict_oldest(1, 0),
                lambda: letters.compress_and_evict_oldest(1, 0),
                lambda: letters.get_compressed_entries(0),
            )
            for call in calls:
                with pytest.raises(TypeError, match="domain of a dead letter is text, not int"):
                    await call()
            assert await letters.count(status="pending") == 1

        play(store_venue, scene)

    def test_time_that_is_none_is_refused_and_never_means_any(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            await letters.create("shop", "t", expires_at=_SEEN)
            too_early = datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))
            calls: tuple[Callable[[Any], Any], ...] = (
                letters.find_expired,
                letters.get_expired_operations,
                lambda value: letters.find_sla_breached(value, {}),
                lambda value: letters.count_created_in_window(value, _SEEN),
                lambda value: letters.count_created_in_window(_SEEN, value),
            )
            for value, error in ((None, TypeError), (date(2030, 1, 1), TypeError), (too_early, ValueError)):
                for call in calls:
                    with pytest.raises(error, match=r"current_time|before_date|start|end"):
                        await call(value)
            for age in (timedelta.max, timedelta.min, None, "soon"):
                with pytest.raises(InvalidDuration, match="threshold of 'shop'"):
                    await letters.find_sla_breached(_SEEN, {"shop": age})
            assert await letters.find_sla_breached(datetime.min.replace(tzinfo=UTC), {}) == []

        play(store_venue, scene)

    def test_number_that_no_clock_or_column_counts_to_is_refused(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("d", "t", retry_count=10**9, max_retries=10**9)
            assert await letters.increment_retry_count(record.id)
            assert (await letters.try_acquire_for_replay(record.id, 10**30)).retry_count == 10**9 + 2
            for name in ("retry_count", "max_retries"):
                for value in (10**9 + 1, -1, 1.5, "2", None):
                    with pytest.raises(ValueError, match=name):
                        await letters.create("d", "t", **{name: value})
            for age in (10**12, float("nan"), float("inf"), None, "30", False):
                with pytest.raises(InvalidDuration, match="older_than_minutes"):
                    await letters.release_stale_replaying(age)
                with pytest.raises(InvalidDuration, match="older_than_days"):
                    await letters.archive_old_resolved(age)
            assert await letters.update_status(record.id, "archived")
            with pytest.raises(InvalidDuration, match="older_than_days"):
                await letters.purge_archived(older_than_days=False)
            assert await letters.count(status="archived") == 1
            for value in (None, 1.5, "2"):
                with pytest.raises(ValueError, match="max_retries"):
                    await letters.find_replayable(value)
                with pytest.raises(ValueError, match="max_retries"):
                    await letters.try_acquire_for_replay(record.id, value)
            for limit in (-1, None, 1.5, 10**12):
                with pytest.raises(ValueError, match="limit"):
                    await letters.acquire_due(limit)

        play(store_venue, scene)

    def test_limit_of_retries_may_be_as_great_as_one_likes(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            record = await letters.create("d", "t", retry_count=9)
            assert ids(await letters.find_replayable(10**30)) == [record.id]
            assert await letters.find_replayable(-1) == await letters.find_replayable(9) == []
            assert ids(await letters.acquire_many([record.id], 10**30)) == [record.id]

        play(store_venue, scene)

    def test_many_are_taken_in_the_order_they_were_asked_for(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            made = [(await letters.create("d", "t")).id for _ in range(6)]
            asked = [made[4], made[1], made[5], "nobody", made[0], made[3], made[2]]
            await letters.update_status(made[5], "resolved")
            taken = await letters.acquire_many(asked)
            assert ids(taken) == [made[4], made[1], made[0], made[3], made[2]]

        play(store_venue, scene)


class SummaryDoor:
    """Summaries that are stored by hand: whole, or not at all."""

    def test_summary_that_could_not_be_kept_is_refused_whole(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            naive = datetime(2030, 1, 1)  # noqa: DTZ001 -- that is the point
            refused: list[tuple[str, Any, type[Exception]]] = [
                *(("count", value, ValueError) for value in (None, 1.5, "x", 2**63, -3)),
                *(("id", value, InvalidKey) for value in ("", "a\0b", "\ud800")),
                ("id", "x" * 513, TooLong),
                ("id", 5, TypeError),
                *((name, naive, ValueError) for name in ("first_seen", "compressed_at", "stale_at", "archived_at")),
                *((name, None, TypeError) for name in ("first_seen", "last_seen", "sample_error_message")),
            ]
            for name, value, error in refused:
                changes: dict[str, Any] = {name: value}
                with pytest.raises(error, match=name):
                    await letters.store_compressed_entry(replace(_ENTRY, **changes))
            assert await letters.get_compressed_entries() == []
            assert (await letters.get_compressed_summary())["total_summaries"] == 0

        play(store_venue, scene)

    def test_times_of_a_summary_come_back_in_utc(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            east = _SEEN.astimezone(timezone(timedelta(hours=3)))
            await letters.store_compressed_entry(replace(_ENTRY, status="stale", stale_at=east, archived_at=east))
            [read] = await letters.get_compressed_entries()
            assert str(read.stale_at) == str(read.archived_at) == str(_SEEN)

        play(store_venue, scene)

    def test_summary_of_nothing_moves_on_too(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            assert await letters.store_compressed_entry(replace(_ENTRY, count=0))
            assert await letters.update_compressed_status(_ENTRY.id, "stale")
            totals = {"active": 0, "stale": 1, "archived": 0}
            summary = {"total_summaries": 1, "total_compressed_items": 0, "by_status": totals}
            assert await letters.get_compressed_summary() == summary

        play(store_venue, scene)

    def test_id_of_a_summary_may_be_any_word_and_meets_nothing_else(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            names = ("all", "d:shop", "sums", "sums:shop", ":", "totals", "counts", "shop")
            for name in names:
                assert await letters.store_compressed_entry(replace(_ENTRY, id=name))
            for __ in range(3):
                await letters.create("shop", "t")
            assert await letters.compress_and_evict_oldest(3) == 3
            assert {each.id for each in await letters.get_compressed_entries()} > set(names)
            assert len(await letters.get_compressed_entries("shop")) == len(names) + 1
            assert (await letters.get_compressed_summary())["total_compressed_items"] == 7 * len(names) + 3

        play(store_venue, scene)


__all__ = ["DeadLetterDoor", "SummaryDoor"]

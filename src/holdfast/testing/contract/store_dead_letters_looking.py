"""What every repository of failed operations must do, in any colour: finding, counting, cleaning, summing up."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from holdfast.errors import ConfigurationError
from holdfast.stores import DLQCompressedEntry
from holdfast.testing.colours import Colour
from holdfast.testing.contract.store_dead_letters_stage import ALL_STATUSES, ids, made, one_in_each_status, play

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

_EMPTY = {"total_summaries": 0, "total_compressed_items": 0, "by_status": {"active": 0, "stale": 0, "archived": 0}}


class DeadLetterLists:
    """Finding, paging, counting, statistics."""

    def test_listings_are_in_their_order_and_obey_their_filters(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            records = await made(letters, ground, "a", "b", "a", "b", "a")
            records += await made(letters, ground, "a", "c", failure_type="refused")
            every = ids(records)
            await letters.bulk_update_status([every[0], every[6]], "resolved")
            assert ids(await letters.find()) == every[::-1]
            assert ids(await letters.find(domain="a")) == [every[5], every[4], every[2], every[0]]
            assert ids(await letters.find(status="pending", domain="a")) == [every[5], every[4], every[2]]
            assert ids(await letters.find(failure_type="refused")) == [every[6], every[5]]
            assert ids(await letters.find(status="resolved", failure_type="refused")) == [every[6]]
            assert ids(await letters.find(domain="a", failure_type="refused")) == [every[5]]
            assert ids(await letters.find(status="pending", domain="a", failure_type="refused")) == [every[5]]
            assert ids(await letters.find_by_status("pending")) == every[1:6]
            assert ids(await letters.find_by_status("pending", "a", "timeout")) == [every[2], every[4]]
            assert ids(await letters.find_by_status("pending", limit=2)) == every[1:3]
            assert ids(await letters.get_pending_by_domain("a", 2)) == [every[2], every[4]]
            assert ids(await letters.find(offset=2, limit=2)) == every[::-1][2:4]
            assert ids(await letters.find(failure_type="refused", domain="c", offset=1)) == []

        play(store_venue, scene)

    def test_listing_without_a_status_has_every_status_in_one_order(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            twice = [*(await one_in_each_status(letters, ground)).values()]
            await made(letters, ground, "b", failure_type="refused")
            twice += (await one_in_each_status(letters, ground)).values()
            for filters in ({"domain": "shop"}, {"failure_type": "timeout"}):
                assert ids(await letters.find(**filters)) == twice[::-1]
                assert ids(await letters.find(**filters, offset=8, limit=5)) == twice[::-1][8:13]
            both = {"domain": "shop", "failure_type": "timeout"}
            assert ids(await letters.find(**both, limit=3)) == twice[::-1][:3]
            first = await letters.find_page(**both, newest_first=False, limit=13)
            rest = await letters.find_page(**both, newest_first=False, limit=13, cursor=first.cursor)
            assert ids(first) + ids(rest) == twice
            assert await letters.get_oldest_ids(4, "shop") == twice[:4]

        play(store_venue, scene)

    def test_nothing_is_found_for_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            await letters.create("a", "t")
            assert await letters.find(limit=0) == await letters.find(offset=5) == []
            assert await letters.find(status="no such status") == await letters.find_by_status("no such status") == []
            assert await letters.find(domain="A\0") == await letters.find(failure_type="T") == []
            assert await letters.find_by_status("pending", limit=0) == await letters.get_oldest_ids(0) == []
            assert await letters.count(status="no such status") == 0
            with pytest.raises(ValueError, match="limit"):
                await letters.find(limit=-1)

        play(store_venue, scene)

    def test_match_far_behind_others_is_found(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            for _ in range(12):
                await letters.create("a", "often", retry_count=5)
            [rare] = await made(letters, ground, "a", failure_type="rare")
            assert ids(await letters.find_by_status("pending", "a", "rare", limit=2)) == [rare.id]
            assert ids(await letters.find_replayable(5, "a", limit=2)) == [rare.id]
            assert ids(await letters.find_replayable(6, failure_type="rare")) == [rare.id]
            assert len(await letters.find_replayable(6, limit=13)) == 13

        play(store_venue, scene)

    def test_pages_show_everything_once_while_others_write(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            every = [(await letters.create("a", "t")).id for _ in range(7)]
            for newest in (True, False):
                seen: list[str] = []
                page = await letters.find_page(domain="a", limit=3, newest_first=newest)
                while page.cursor is not None:
                    seen += ids(page)
                    await made(letters, ground, "b", "a")
                    page = await letters.find_page(domain="a", limit=3, newest_first=newest, cursor=page.cursor)
                seen += ids(page)
                assert len(seen) == len(set(seen))
                assert set(every) <= set(seen)
            with pytest.raises(ConfigurationError, match="cursor"):
                await letters.find_page(cursor="nonsense")
            cursor = (await letters.find_page(limit=1)).cursor
            with pytest.raises(ConfigurationError, match="other order"):
                await letters.find_page(cursor=cursor, newest_first=False)

        play(store_venue, scene)

    def test_counts_and_statistics_follow_every_change(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            one, two, _ = await made(letters, ground, "a", "b", "a")
            await made(letters, ground, "a", failure_type="refused")
            await letters.try_acquire_for_replay(one.id, 2)
            await letters.complete_replay(one.id, True)
            await letters.delete(two.id)
            assert await letters.get_statistics() == {
                "total": 3,
                "by_status": {"pending": 2, "resolved": 1},
                "by_domain": {"a": 3},
                "pending_by_domain": {"a": 2},
                "pending_by_domain_and_failure_type": {"a": {"timeout": 1, "refused": 1}},
            }
            assert await letters.count() == 3
            assert await letters.count(status="pending", failure_type="timeout") == 1
            assert await letters.count(domain="b") == 0
            assert await letters.get_pending_count_by_domain("a") == 2

        play(store_venue, scene)

    def test_counts_of_names_that_are_nearly_the_same_are_kept_apart(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            names = ("timeout", "Timeout", "timeo\u00fct", "timeout ")
            records = [(await made(letters, ground, "pay", failure_type=name))[0] for name in names]
            assert len(await letters.acquire_many(ids(records))) == 4
            assert await letters.bulk_update_status(ids(records), "rejected") == 4
            for name in names:
                assert await letters.count(failure_type=name, status="rejected") == 1
            assert (await letters.get_statistics())["by_status"] == {"rejected": 4}
            assert await letters.evict_oldest(4) == 4
            assert [await letters.count(failure_type=name) for name in names] == [0, 0, 0, 0]

        play(store_venue, scene)

    def test_empty_repository_has_statistics_too(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            nothing: dict[str, Any] = {"total": 0}
            parts = ("by_status", "by_domain", "pending_by_domain", "pending_by_domain_and_failure_type")
            assert await letters.get_statistics() == nothing | {part: {} for part in parts}
            assert await letters.get_facet_counts() == {"by_status": {}, "by_domain": {}}
            assert (await letters.get_cleanup_stats())["total"] == await letters.count_all() == 0

        play(store_venue, scene)

    def test_facets_are_not_narrowed_by_their_own_choice(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            one, *_ = await made(letters, ground, "a", "a", "b")
            await letters.update_status(one.id, "resolved")
            everything = {"by_status": {"pending": 2, "resolved": 1}, "by_domain": {"a": 2, "b": 1}}
            assert await letters.get_facet_counts() == everything
            assert await letters.get_facet_counts(status="pending", domain="a") == {
                "by_status": {"pending": 1, "resolved": 1},
                "by_domain": {"a": 1, "b": 1},
            }
            assert await letters.get_facet_counts(status="resolved", domain="b") == {
                "by_status": {"pending": 1},
                "by_domain": {"a": 1},
            }
            assert (await letters.get_facet_counts(domain="A"))["by_status"] == {}

        play(store_venue, scene)

    def test_active_are_all_but_resolved_rejected_and_archived(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            by_status = await one_in_each_status(letters, ground)
            assert await letters.count_all() == 7
            assert await letters.count_by_domain("shop") == await letters.count() == 10
            assert await letters.get_oldest_ids(10, "shop") == list(by_status.values())
            assert await letters.get_oldest_ids(3) == list(by_status.values())[:3]
            assert await letters.get_oldest_ids(3, "elsewhere") == []
            assert (await letters.get_statistics())["by_status"] == dict.fromkeys(ALL_STATUSES, 1)

        play(store_venue, scene)

    def test_window_counts_both_its_ends_and_every_status(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            one, two, three = await made(letters, ground, "a", "a", "a")
            await letters.update_status(two.id, "archived")
            assert await letters.count_created_in_window(one.created_at, three.created_at) == 3
            assert await letters.count_created_in_window(two.created_at, two.created_at) == 1
            later = one.created_at + timedelta(microseconds=1)
            assert await letters.count_created_in_window(later, three.created_at) == 2
            elsewhere = three.created_at.astimezone(_zone())
            assert await letters.count_created_in_window(later, elsewhere) == 2

        play(store_venue, scene)

    def test_breach_of_the_sla_is_strict_and_has_a_default(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            one, two, three = await made(letters, ground, "a", "b", "a")
            await letters.update_status(three.id, "resolved")
            hour, day = timedelta(hours=1), timedelta(hours=24)
            assert await letters.find_sla_breached(one.created_at + hour, {"a": hour}) == []
            just = timedelta(microseconds=1)
            assert ids(await letters.find_sla_breached(one.created_at + hour + just, {"a": hour})) == [one.id]
            assert await letters.find_sla_breached(two.created_at + day, {"a": 2 * day}) == []
            assert ids(await letters.find_sla_breached(two.created_at + day + just, {"a": 2 * day})) == [two.id]
            by_default = await letters.find_sla_breached(two.created_at + hour + just, {"default": hour})
            assert ids(by_default) == [one.id, two.id]

        play(store_venue, scene)

    def test_expired_are_found_strictly_and_in_any_status(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            moment = datetime(2031, 5, 1, tzinfo=UTC)
            late, soon = [await letters.create("a", "t", expires_at=moment + timedelta(days=days)) for days in (2, 1)]
            await made(letters, ground, "a")
            await letters.update_status(late.id, "resolved")
            assert await letters.find_expired(soon.expires_at) == []
            assert ids(await letters.find_expired(late.expires_at)) == [soon.id]
            assert ids(await letters.find_expired(moment + timedelta(days=9))) == [soon.id, late.id]
            assert ids(await letters.get_expired_operations(moment + timedelta(days=9), 1)) == [soon.id]
            assert await letters.get_expired_operations(moment + timedelta(days=9), 0) == []
            if store_venue.colour is Colour.ASYNC:  # more than one step takes, wherever it is kept
                more = [letters.create("a", "t", expires_at=moment - timedelta(days=1)) for _ in range(201)]
                await asyncio.gather(*more)
                assert len(await letters.find_expired(moment)) == 201
            with pytest.raises(ValueError, match="time zone"):
                await letters.find_expired(datetime(2031, 1, 1))  # noqa: DTZ001 -- that is the point

        play(store_venue, scene)


def _zone() -> Any:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 -- one test needs it

    return ZoneInfo("Asia/Tokyo")


class DeadLetterCleaning:
    """Archive, purge, evict, summaries."""

    def test_archive_takes_what_was_resolved_strictly_longer_ago(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            old, new, open_ = await made(letters, ground, "a", "a", "a")
            await letters.update_status(old.id, "resolved")
            await ground.advance(29 * 86400)
            assert await letters.archive_old_resolved(30) == 0
            await letters.update_status(new.id, "resolved")
            await ground.advance(2 * 86400)
            assert (await letters.get_cleanup_stats())["resolved_older_than_30_days"] == 1
            assert await letters.archive_old_resolved() == 1
            read = await letters.get_by_id(old.id)
            assert (read.status, read.resolved_at) == ("archived", (await letters.get_by_id(old.id)).resolved_at)
            assert read.updated_at > read.resolved_at
            assert await letters.archive_old_resolved(-1) == 1
            assert (await letters.get_by_id(open_.id)).status == "pending"

        play(store_venue, scene)

    def test_purge_by_ids_deletes_all_or_nothing(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            one, two, other = await made(letters, ground, "a", "a", "a")
            await letters.bulk_update_status([one.id, two.id], "archived")
            with pytest.raises(ValueError, match="not archived"):
                await letters.purge_archived([one.id, other.id])
            more = await made(letters, ground, "a", "a", "a")
            first = min(ids([other, *more]))
            with pytest.raises(ValueError, match=f"{first} is not archived"):
                await letters.purge_archived(sorted(ids([other, *more]), reverse=True))
            for each in more:
                assert await letters.delete(each.id)
            with pytest.raises(ValueError, match="not by both"):
                await letters.purge_archived([one.id], 3)
            assert await letters.count() == 3
            assert await letters.purge_archived() == await letters.purge_archived([]) == 0
            assert await letters.purge_archived([one.id, one.id, "nobody", two.id]) == 2
            assert ids(await letters.find()) == [other.id]

        play(store_venue, scene)

    def test_purge_by_age_goes_by_the_time_of_archiving(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            one, two, three = await made(letters, ground, "a", "a", "a")
            await letters.mark_as_resolved(one.id, "manual")
            await ground.advance(50 * 86400)
            await letters.bulk_update_status([one.id, two.id], "archived")
            assert await letters.count_archived_older_than(40) == 1  # by its resolution; the other has none
            assert await letters.purge_archived(older_than_days=40) == 0
            await ground.advance(91 * 86400)
            assert (await letters.get_cleanup_stats())["archived_older_than_90_days"] == 2
            await letters.update_status(three.id, "archived")
            assert await letters.purge_archived(older_than_days=90) == 2
            assert await letters.purge_archived(older_than_days=0) == 1
            assert await letters.count() == 0

        play(store_venue, scene)

    def test_cleanup_stats_name_what_there_is(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            one, _ = await made(letters, ground, "a", "a")
            await letters.update_status(one.id, "resolved")
            assert await letters.get_cleanup_stats() == {
                "total": 2,
                "by_status": {"pending": 1, "resolved": 1},
                "resolved_older_than_30_days": 0,
                "archived_older_than_90_days": 0,
            }

        play(store_venue, scene)

    def test_eviction_spares_what_is_being_worked_on(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            by_status = await one_in_each_status(letters, ground)
            [elsewhere] = await made(letters, ground, "b")
            assert await letters.evict_oldest(2, "shop") == 2
            assert await letters.evict_oldest(0) == 0
            left = set(ids(await letters.find()))
            gone = {by_status["pending"], by_status["replayed"]}
            assert left == {*by_status.values(), elsewhere.id} - gone
            assert await letters.evict_oldest(100, "shop") == 6
            assert set(ids(await letters.find())) == {by_status["replaying"], by_status["reviewing"], elsewhere.id}
            assert await letters.evict_oldest(100) == 1
            assert await letters.count() == 2

        play(store_venue, scene)

    def test_compressing_stores_what_is_left_of_the_evicted(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            assert await letters.get_compressed_summary() == _EMPTY
            first, *_, last = await made(letters, ground, "a", "a", "a", error_code="E1", error_message="boom")
            await made(letters, ground, "b", error_message="other")
            [held] = await made(letters, ground, "a")
            await letters.try_acquire_for_replay(held.id, 2)
            assert await letters.compress_and_evict_oldest(100) == 4
            assert ids(await letters.find()) == [held.id]
            [entry] = await letters.get_compressed_entries("a")
            assert (entry.domain, entry.failure_type, entry.error_code, entry.count) == ("a", "timeout", "E1", 3)
            assert (entry.first_seen, entry.last_seen) == (first.created_at, last.created_at)
            assert (entry.sample_error_message, entry.sample_context["id"]) == ("boom", last.id)
            assert entry.id.startswith("compressed:a:timeout:E1:")
            assert entry.status == "active"
            totals = {"active": 2, "stale": 0, "archived": 0}
            summary = {"total_summaries": 2, "total_compressed_items": 4, "by_status": totals}
            assert await letters.get_compressed_summary() == summary
            assert await letters.compress_and_evict_oldest(5) == 0

        play(store_venue, scene)

    def test_groups_with_colons_in_their_names_are_summed_up_apart(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, _: Ground) -> None:
            groups = [("a", "b", "c:d"), ("a", "b:c", "d"), ("a:b", "c", "d"), ("a%3Ab", "c", "d")]
            for domain, kind, code in groups:
                await letters.create(domain, kind, error_code=code)
            assert await letters.compress_and_evict_oldest(10) == 4
            found = await letters.get_compressed_entries()
            assert sorted((each.domain, each.failure_type, each.error_code) for each in found) == sorted(groups)
            assert {each.count for each in found} == {1}

        play(store_venue, scene)

    def test_summary_moves_on_and_never_back(self, store_venue: StoreVenue) -> None:
        async def scene(letters: Any, ground: Ground) -> None:
            seen = datetime(2030, 1, 1, 12, tzinfo=UTC)
            entry = DLQCompressedEntry(
                id="compressed:mine", domain="a", failure_type="t", error_code="", count=7, first_seen=seen,
                last_seen=seen + timedelta(microseconds=5), sample_context={"deep": [1]},
            )  # fmt: skip
            assert await letters.store_compressed_entry(entry) is True
            assert await letters.store_compressed_entry(replace(entry, count=8)) is False
            await ground.advance(1)
            newer = replace(entry, id="compressed:newer", domain="b", count=1)
            assert await letters.store_compressed_entry(newer)
            assert [each.id for each in await letters.get_compressed_entries()] == [newer.id, entry.id]
            assert len(await letters.get_compressed_entries(limit=1)) == 1
            assert await letters.get_compressed_entries(limit=0) == []
            [read] = await letters.get_compressed_entries("a", "active")
            assert read.compressed_at is not None
            assert replace(read, compressed_at=None) == entry
            assert await letters.update_compressed_status(entry.id, "stale")
            assert not await letters.update_compressed_status(entry.id, "stale")
            assert not await letters.update_compressed_status(entry.id, "active")
            assert await letters.update_compressed_status(entry.id, "archived")
            assert not await letters.update_compressed_status("nobody", "stale")
            with pytest.raises(ValueError, match="nonsense"):
                await letters.update_compressed_status(entry.id, "nonsense")
            [moved] = await letters.get_compressed_entries(status="archived")
            assert moved.stale_at is not None
            assert moved.archived_at is not None
            totals = {"active": 1, "stale": 0, "archived": 1}
            summary = {"total_summaries": 2, "total_compressed_items": 8, "by_status": totals}
            assert await letters.get_compressed_summary() == summary

        play(store_venue, scene)


__all__ = ["DeadLetterCleaning", "DeadLetterLists"]

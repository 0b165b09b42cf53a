"""A breaker whose record cannot be read, since somebody wrote it past us: the others go on, and it can be deleted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.errors import CannotDeserialize
from holdfast.resilience import CircuitBreaker
from holdfast.stores.breakers.documents import written
from holdfast.testing.colours import Colour
from holdfast.testing.contract.store_breakers_shared import Process
from holdfast.testing.contract.store_breakers_stage import open_breakers, play

if TYPE_CHECKING:
    from holdfast.testing.contract.store_ground import Ground, StoreVenue

BACKENDS = ("sqlite", "postgres", "mariadb", "redis")
DAMAGED = '{"service_name":"api","controlled_by_id":"7f3c-uuid"}'


async def damage(ground: Ground, text: str = DAMAGED) -> None:
    """Write the record of the breaker ``api``, which is there, past the repository."""
    if ground.venue.is_sql:
        await ground.execute(
            "UPDATE {holdfast_circuit_breakers} SET record = ?, stamp = ? WHERE service_name = 'api'", text, "damaged"
        )
    else:
        link = await ground.link()
        await ground.on_loop(_put(link, ground.prefix, text))


async def _put(link: Any, prefix: str, text: str) -> None:
    await link.client.hset(f"{{{prefix}}}:breakers", "api", text)


def test_error_names_the_breaker_and_deleting_it_puts_things_right(store_venue: StoreVenue) -> None:
    async def scene(breakers: Any, ground: Ground) -> None:
        await breakers.trip_to_open("api")
        await breakers.get_or_create("mail")
        await damage(ground)
        for call in (
            breakers.get_by_service_name("api"),
            breakers.get_all_states(),
            breakers.get_open_states(),
            breakers.atomic_force_close("api"),
            breakers.reset("api"),
        ):
            with pytest.raises(CannotDeserialize, match=r"breaker 'api'.*controlled_by_id.*delete_state\('api'\)"):
                await call
        assert (await breakers.record_failure("mail")).failure_count == 1
        assert await breakers.delete_state("api") is True
        assert [each.service_name for each in await breakers.get_all_states()] == ["mail"]
        assert await breakers.get_open_states() == []
        assert (await breakers.record_failure("api")).failure_count == 1

    play(store_venue, scene)


def test_entry_of_a_history_that_cannot_be_read_goes_with_its_breaker(store_venue: StoreVenue) -> None:
    async def scene(breakers: Any, ground: Ground) -> None:
        await breakers.trip_to_open("api")
        if ground.venue.is_sql:
            await ground.execute("UPDATE {holdfast_circuit_breaker_history} SET entry = ?", DAMAGED)
        else:
            link = await ground.link()
            await ground.on_loop(_put_entry(link, ground.prefix))
        with pytest.raises(CannotDeserialize, match=r"breaker 'api'.*delete_state\('api'\)"):
            await breakers.get_history("api")
        assert (await breakers.get_by_service_name("api")).state == "open"
        assert await breakers.delete_state("api") is True
        await breakers.trip_to_open("api")
        assert len(await breakers.get_history("api")) == 1

    play(store_venue, scene)


async def _put_entry(link: Any, prefix: str) -> None:
    await link.client.lset(f"{{{prefix}}}:breakers:history:api", 0, DAMAGED)


def test_text_that_is_no_record_at_all_can_be_deleted(store_venue: StoreVenue) -> None:
    async def scene(breakers: Any, ground: Ground) -> None:
        await breakers.get_or_create("api")
        await damage(ground, "{")
        with pytest.raises(CannotDeserialize):
            await breakers.get_by_service_name("api")
        assert await breakers.delete_state("api") is True
        assert await breakers.get_all_states() == []

    play(store_venue, scene)


def test_changes_of_others_and_the_deletion_do_not_fail_beside_one_that_does(store_venue: StoreVenue) -> None:
    async def scene(breakers: Any, ground: Ground) -> None:
        await breakers.get_or_create("api")
        await damage(ground)
        done: Any = await asyncio.gather(
            breakers.record_failure("mail"),
            breakers.record_failure("api"),
            breakers.delete_state("api"),
            return_exceptions=True,
        )
        assert done[0].failure_count == 1
        assert done[2] is True
        assert isinstance(done[1], CannotDeserialize) or done[1].failure_count == 1  # it may come after the deletion

    play(store_venue, scene)


def test_only_the_breaker_that_cannot_be_read_decides_by_itself(store_venue: StoreVenue) -> None:
    async def scene(breakers: Any, ground: Ground) -> None:
        other = await open_breakers(ground)  # another process writes, this one finds it by a look
        await other.get_or_create("api")
        api = Process(ground, breakers)
        mail = _breaker(breakers, ground, "mail")
        await api.call()
        await _call(mail, ground)
        await damage(ground)
        async with asyncio.timeout(60):
            while not _is_away(api):  # noqa: ASYNC110 -- changed by another thread
                await asyncio.sleep(0.01)
            await other.atomic_force_open("mail", "maintenance")
            while mail.state != "open":  # noqa: ASYNC110 -- changed by another thread
                await asyncio.sleep(0.01)
            assert not mail.storage_away
            await other.delete_state("api")
            await other.atomic_force_open("api", "maintenance")
            await api.until("open")
            assert not _is_away(api)

    play(store_venue, scene)


def _is_away(process: Process) -> bool:
    return process.breaker.storage_away


def _breaker(breakers: Any, ground: Ground, name: str) -> CircuitBreaker:
    return CircuitBreaker(name, repository=breakers.blocking if ground.colour is Colour.SYNC else breakers)


async def _call(breaker: CircuitBreaker, ground: Ground) -> None:
    if ground.colour is Colour.SYNC:
        await asyncio.to_thread(breaker.call, int)
    else:
        await breaker.call_async(asyncio.sleep, 0)


def test_what_was_written_is_read(store_venue: StoreVenue) -> None:
    """The damage above is done to what the repository would read: a record that was not damaged is found."""

    async def scene(breakers: Any, ground: Ground) -> None:
        made = await breakers.get_or_create("api")
        await damage(ground, written(made))
        assert await breakers.get_by_service_name("api") == made

    play(store_venue, scene)

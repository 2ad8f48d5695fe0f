"""Batches are prepared and stored in threads of their own, in turn."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar

import pytest

from setwise.service.api.pipeline import Pipeline
from setwise.service.domain.errors import StorageUnavailable

SOON_S = 10.0
asked_by: ContextVar[str] = ContextVar("asked_by")


@pytest.fixture
def pipeline() -> Iterator[Pipeline]:
    pipeline = Pipeline()
    yield pipeline
    pipeline.close()


def test_one_is_prepared_while_another_is_stored(pipeline: Pipeline) -> None:
    storing, prepared = threading.Event(), threading.Event()

    def store() -> bool:
        storing.set()
        return prepared.wait(SOON_S)

    async def both() -> bool:
        stored = asyncio.ensure_future(pipeline.store(store))
        assert await asyncio.to_thread(storing.wait, SOON_S)
        await pipeline.prepare(prepared.set)
        return await stored

    assert asyncio.run(both())


def test_sqlite_stores_one_at_a_time_and_in_turn(pipeline: Pipeline) -> None:
    under_way, most, order = 0, 0, []

    def storing(place: int) -> Callable[[], None]:
        def store() -> None:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            order.append(place)
            threading.Event().wait(0.005)
            under_way -= 1

        return store

    async def all_at_once() -> None:
        await asyncio.gather(*(pipeline.store(storing(place)) for place in range(8)))

    asyncio.run(all_at_once())
    assert most == 1
    assert order == [*range(8)]


def test_a_database_server_stores_several_at_a_time() -> None:
    pipeline = Pipeline(storing=2)
    both = threading.Barrier(2)

    async def two() -> None:
        await asyncio.gather(*(pipeline.store(lambda: both.wait(SOON_S)) for _ in range(2)))

    asyncio.run(two())  # each waits until the other one is stored too
    pipeline.close()


def test_a_batch_that_waited_too_long_is_not_stored() -> None:
    pipeline = Pipeline(patience_s=0.0)
    stored: list[str] = []
    with pytest.raises(StorageUnavailable, match="too many batches wait to be stored"):
        asyncio.run(pipeline.store(lambda: stored.append("late")))
    pipeline.close()
    assert stored == []


@pytest.mark.parametrize("stage", [Pipeline.prepare, Pipeline.store])
def test_a_stage_knows_whose_request_it_works_on(pipeline: Pipeline, stage: object) -> None:
    async def asked() -> str:
        asked_by.set("req-7")
        return await stage(pipeline, asked_by.get)  # type: ignore[operator]  # either of the two

    assert asyncio.run(asked()) == "req-7"


def test_what_has_begun_is_done_when_it_closes() -> None:
    pipeline = Pipeline()
    begun, done = threading.Event(), threading.Event()

    def store() -> None:
        begun.set()
        threading.Event().wait(0.05)
        done.set()

    async def stop() -> None:
        stored = asyncio.ensure_future(pipeline.store(store))
        await asyncio.to_thread(begun.wait, SOON_S)
        await asyncio.to_thread(pipeline.close)
        assert done.is_set()
        await stored

    asyncio.run(stop())

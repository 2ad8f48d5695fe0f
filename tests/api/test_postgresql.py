"""A journey of each noun on PostgreSQL; all other tests above the stores run on SQLite."""

from collections.abc import Iterator

import pytest

from setwise.service.settings import Settings
from setwise.service.stores.database import create
from setwise.service.stores.transaction import Transactions
from tests.api.test_conditions import VERSIONED
from tests.api.test_idempotency import EVERY, World
from tests.edge import build_service

CHANGES = EVERY | VERSIONED


@pytest.fixture
def world(postgres_url: str) -> Iterator[World]:
    engine = create(postgres_url)
    settings = Settings(max_text_bytes=1_000)
    yield World(**vars(build_service(settings, begin=Transactions(engine))))
    engine.dispose()


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_succeeds(world: World, name: str) -> None:
    response = world.send(**{"method": "POST", **CHANGES[name](world)})
    assert response.status_code < 300, response.text

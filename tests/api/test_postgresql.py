"""A journey of each noun on PostgreSQL; all other tests above the stores run on SQLite."""

from collections.abc import Iterator

import pytest

from setwise.service.settings import Settings
from setwise.service.stores.database import create
from setwise.service.stores.transaction import Transactions
from tests.api.test_conditions import VERSIONED
from tests.api.test_idempotency import EVERY
from tests.kit.edge import Service, build_service

CHANGES = EVERY | VERSIONED


@pytest.fixture
def service(postgres_url: str) -> Iterator[Service]:
    engine = create(postgres_url)
    settings = Settings(max_text_bytes=1_000)
    yield build_service(settings, begin=Transactions(engine))
    engine.dispose()


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_succeeds(service: Service, name: str) -> None:
    response = service.send(**{"method": "POST", **CHANGES[name](service)})
    assert response.status_code < 300, response.text

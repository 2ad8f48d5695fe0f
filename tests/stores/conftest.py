"""SQL is proved on both databases."""

import pytest

from tests.kit.databases import BOTH


@pytest.fixture(scope="module", params=BOTH)
def database_kind(request: pytest.FixtureRequest) -> str:
    """Return the database that a test runs on."""
    kind: str = request.param
    return kind

"""What tests of every layer share."""

import os
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

# A busy machine is no fault, and a first call compiles. The gate repeats the same examples;
# elsewhere each run looks for new ones. `make verify` draws many more.
for profile, examples in (("short", 30), ("long", 100)):
    settings.register_profile(
        profile,
        max_examples=examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        derandomize="CI" in os.environ,
    )
settings.load_profile("short")

# By default, structlog prints the values of all variables with a trace, which takes seconds.
*_processors, _ = structlog.get_config()["processors"]
structlog.configure(
    [*_processors, structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
)

pytest_plugins = [
    "tests.database",
    "tests.trained",
    "tests.edge",
    "tests.clusters",
    "tests.durations",
]

ROOT = Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need PostgreSQL, which `make check` leaves to `make test`."""
    for item in items:
        given = item.callspec.params.values() if hasattr(item, "callspec") else ()
        words = [one for one in given if isinstance(one, str)]  # arrays are not compared
        if "postgresql" in words or "postgres_server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.postgresql)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder of real data sets, or skip: a clone does not carry them.

    The build server sets ``SETWISE_REQUIRE_DATA`` so that a missing folder fails there.
    """
    folder = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        message = f"no real data at {folder}: set SETWISE_TEST_DATA to the folder of data sets"
        if os.environ.get("SETWISE_REQUIRE_DATA"):
            pytest.fail(message)
        pytest.skip(message)
    return folder

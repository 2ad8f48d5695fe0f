"""What tests of every layer share."""

import gc
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings
from structlog.stdlib import ProcessorFormatter

# Ten thousand tests and the libraries stay in memory: to look for garbage among them as often as
# by default takes a tenth of the time.
gc.set_threshold(*gc.get_threshold()[:2], 100)

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
_processors.append(structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback))
structlog.configure(_processors)
_logging_at_first = structlog.get_config()

pytest_plugins = [
    "tests.kit.databases",
    "tests.trained",
    "tests.kit.edge",
    "tests.kit.clinic",
    "tests.kit.installation",
    "tests.clusters",
    "tests.durations",
]


@pytest.fixture(autouse=True)
def logs_as_at_first() -> Iterator[None]:
    """Undo what commands do to logging, which would quiet or interrupt the tests after them."""
    _undo_logging()
    yield
    _undo_logging()


def _undo_logging() -> None:
    root = logging.getLogger()
    root.handlers = [
        one for one in root.handlers if not isinstance(one.formatter, ProcessorFormatter)
    ]
    root.setLevel(logging.WARNING)
    # Importing MLflow attaches its own handler to this logger.
    migrations = logging.getLogger("alembic")
    migrations.handlers, migrations.propagate = [], True
    migrations.setLevel(logging.NOTSET)
    structlog.configure(**_logging_at_first)


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

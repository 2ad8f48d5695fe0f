"""What tests of every layer share."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no fault, and a first call compiles. The gate repeats the same examples;
# elsewhere each run looks for new ones.
settings.register_profile(
    "setwise",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
settings.load_profile("setwise")

pytest_plugins = ["tests.database", "tests.trained", "tests.edge"]

ROOT = Path(__file__).resolve().parents[1]


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

"""Programs that tests run, and that a machine may lack."""

import os
import shutil

import pytest


def tools_or_skip(*names: str) -> None:
    """Skip a test if a program is missing, with the reason.

    ``SETWISE_REQUIRE_TOOLS`` lists, between spaces, those whose tests fail instead: the build
    server sets it, so that nothing is skipped there unnoticed.
    """
    required = os.environ.get("SETWISE_REQUIRE_TOOLS", "").split()
    for name in names:
        if shutil.which(name) is None:
            message = f"{name} is not installed"
            if name in required:
                pytest.fail(message)
            pytest.skip(message)

"""``import setwise``: what it offers, and how little it costs."""

import subprocess
import sys

import pytest

import setwise


def test_every_public_name_loads_and_is_documented() -> None:
    for name in setwise.__all__:
        assert getattr(setwise, name).__doc__, name


def test_only_public_names_are_listed() -> None:
    assert dir(setwise) == sorted(setwise.__all__)
    with pytest.raises(AttributeError, match="no attribute 'fit'"):
        _ = setwise.fit


def test_importing_the_package_loads_no_library() -> None:
    code = "import sys, setwise; print(*sorted({'numpy', 'numba', 'sklearn'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""

"""A full disk is noticed before writes fail."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from setwise.service.runtime import disk


class DiskUsage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def sized(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    def resize(total: int, free: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: DiskUsage(total, total - free, free))

    return resize


@pytest.mark.parametrize(
    ("total", "free", "full"),
    [
        (10**12, 10**12, False),
        (10**12, 49_999_999, True),
        (10**12, 50_000_000, False),
        (64_000_000, 40_000_000, False),  # of a small disk most is free
        (64_000_000, 3_000_000, True),
    ],
)
def test_a_disk_is_full_with_little_room_left(
    sized: Callable[[int, int], None], tmp_path: Path, total: int, free: int, *, full: bool
) -> None:
    sized(total, free)
    assert (disk.fault([tmp_path / "not" / "there"]) is not None) == full


def test_a_folder_that_nobody_may_write_needs_no_room(
    sized: Callable[[int, int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sized(10**9, 0)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert disk.fault([tmp_path]) is None

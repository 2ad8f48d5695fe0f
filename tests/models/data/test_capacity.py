"""What cannot fit memory is refused before the work begins."""

from pathlib import Path

import pytest

from setwise.models import training
from setwise.models.data import capacity
from setwise.models.data.capacity import (
    BYTES_PER_KEPT,
    BYTES_PER_SCORE,
    KEPT_SCORES,
    available_memory,
    check_room,
)
from setwise.models.options import TrainingOptions
from setwise.models.training import train
from tests.models.corpora import vectors


def test_scores_that_just_fit_are_accepted_and_one_more_document_is_not() -> None:
    room = BYTES_PER_SCORE * 1000 * 7
    check_room(1000, 7, available=room)
    with pytest.raises(ValueError, match="1,001 documents and 7 labels"):
        check_room(1001, 7, available=room)


def test_of_many_scores_the_largest_need_room_unless_all_are_read_at_once() -> None:
    room = BYTES_PER_KEPT * KEPT_SCORES * 1_000_000
    check_room(1_000_000, 10_000, available=room)
    with pytest.raises(ValueError, match="need 120 GB"):
        check_room(1_000_000, 10_000, available=room, whole=True)
    with pytest.raises(ValueError, match="need 2 GB"):
        check_room(1_000_001, 10_000, available=room)


def test_this_machine_tells_its_memory() -> None:
    room = available_memory()
    assert room is None or 0 < room < 2**50


def files(folder: Path, monkeypatch: pytest.MonkeyPatch, **contents: str) -> None:
    """Let the system's files say something else."""
    for name, text in contents.items():
        (folder / name.replace("_", ".")).write_text(text)
    monkeypatch.setattr(capacity, "_CGROUP", folder)
    monkeypatch.setattr(capacity, "_MEMINFO", folder / "meminfo")
    monkeypatch.setattr(capacity, "_free_of_process", lambda: None)


def test_the_tightest_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meminfo = "MemTotal: 9000 kB\nMemAvailable: 4000 kB\nSwapFree: 1000 kB\n"
    files(tmp_path, monkeypatch, meminfo=meminfo, memory_max="3000000", memory_current="500000")
    assert available_memory() == 2_500_000
    files(tmp_path, monkeypatch, memory_max="max")
    assert available_memory() == 5000 * 1024


def test_where_nobody_tells_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, monkeypatch)
    assert available_memory() is None
    check_room(10**9, 10**6)


def test_training_refuses_before_it_reads_a_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "available_memory", lambda: 1000)
    monkeypatch.setattr(training, "fit_features", lambda *_: pytest.fail("work began"))
    with pytest.raises(ValueError, match="of memory for their scores"):
        train(vectors(100), TrainingOptions())

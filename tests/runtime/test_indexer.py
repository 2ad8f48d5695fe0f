"""The indexer: texts become searchable soon, in batches, and one failure does not end that."""

import pytest
import structlog

from setwise.service.domain.errors import StorageUnavailable
from setwise.service.runtime.indexer import WordIndexer
from tests.kit.waiting import PATIENCE_S, eventually


def test_batches_follow_each_other_until_nothing_waits() -> None:
    waiting, asked = 5, 0

    def index() -> bool:
        nonlocal waiting, asked
        asked += 1
        waiting = max(0, waiting - 2)
        return waiting > 0

    indexer = WordIndexer(index, poll_s=PATIENCE_S)
    indexer.start()
    eventually(lambda: waiting == 0)
    indexer.stop()
    assert asked == 3


@pytest.mark.parametrize("error", [StorageUnavailable("asleep"), ValueError("a fault of ours")])
def test_after_a_failure_it_tries_again(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr("setwise.service.runtime.polling.LONGEST_PAUSE_S", 0.01)
    asked = 0

    def index() -> bool:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise error
        return False

    indexer = WordIndexer(index, poll_s=0.01)
    with structlog.testing.capture_logs() as lines:
        indexer.start()
        eventually(lambda: asked > 1)
        indexer.stop()
    assert [line["event"] for line in lines] in (["polling.waits"], ["polling.failed"])

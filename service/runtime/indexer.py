"""Makes new texts searchable by their words, in batches and outside requests.

Each stored text waits in a table until its words are indexed, so a crash loses none. Any number of
processes can share the table.
"""

import threading
from collections.abc import Callable

import structlog

from setwise.service.domain.errors import StorageDamaged, StorageUnavailable
from setwise.service.runtime.worker import LONGEST_PAUSE_S, POLL_S

log = structlog.get_logger(__name__)


class WordIndexer:
    """Indexes the words of new texts until it is stopped.

    ``index``: Indexes a batch; returns whether more may wait.
    ``poll_s``: Pause before looking for new texts, in seconds.
    """

    def __init__(self, index: Callable[[], bool], *, poll_s: float = POLL_S) -> None:
        self._index = index
        self._poll_s = poll_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start indexing in a thread of this process."""
        self._thread = threading.Thread(target=self.run, name="indexer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current batch."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def run(self) -> None:
        """Index words until `stop` is called."""
        pause_s = self._poll_s
        while not self._stopping.is_set():
            try:
                while self._index() and not self._stopping.is_set():
                    pass
            except (StorageUnavailable, StorageDamaged) as error:
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                log.warning("indexer.waits", reason=error.detail, seconds=pause_s)
            except Exception:
                pause_s = LONGEST_PAUSE_S
                log.exception("indexer.failed", seconds=pause_s)
            else:
                pause_s = self._poll_s
            self._stopping.wait(pause_s)

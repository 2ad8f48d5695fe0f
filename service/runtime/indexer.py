"""Makes new texts searchable by their words, in batches and outside requests.

Each stored text waits in a table until its words are indexed, so a crash loses none. Any number of
processes can share the table.
"""

import threading
from collections.abc import Callable

from setwise.service.runtime.polling import POLL_S, poll


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
        poll(self._index_all, self._stopping, poll_s=self._poll_s, name="indexer")

    def _index_all(self) -> None:
        while self._index() and not self._stopping.is_set():
            pass

"""Delivers messages: one thread routes, claims and records, others call the endpoints.

Deliveries have leases and fencing tokens, like jobs, so any number of couriers can share the table.
A courier runs beside the job worker, so that long jobs do not delay messages.
"""

import queue
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import structlog

from setwise.service.domain.errors import StorageDamaged, StorageUnavailable
from setwise.service.domain.webhooks import (
    GONE,
    Delivery,
    DeliveryState,
    Parcel,
    ReceiverResponse,
)
from setwise.service.runtime.polling import LONGEST_PAUSE_S, POLL_S
from setwise.service.runtime.sender import HttpSender
from setwise.service.services.webhooks import Webhooks
from setwise.service.stores.database import Clock

SHARE = 4
"""Most attempts in progress to an endpoint; each runs in a thread."""

MOST_CLAIMED = 100
"""Most messages claimed for an endpoint, however quickly it answers."""

AHEAD_S = 1.0
"""Messages are claimed for about this time, in seconds, at an endpoint's recent pace."""

QUICK_S = SHARE * AHEAD_S / MOST_CLAIMED
"""How quickly an endpoint has to answer, in seconds, to get the largest blocks."""

HELD_S = 10.0
"""How long a claimed message may wait before it is given back; far less than its lease."""

GATHERED_S = 0.1
"""How long a response may wait for others, in seconds, before it is recorded."""

log = structlog.get_logger(__name__)


class Lane:
    """Threads that call one endpoint, and how many messages they may have.

    Endpoints share no threads, so that one that hangs does not delay the others.
    """

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(SHARE, thread_name_prefix="delivery")
        self.claimed = 0
        self.gone = False
        self._seconds = AHEAD_S

    def room(self) -> int:
        """Return how many more messages to claim: none while half of a block is left."""
        most = max(SHARE, int(MOST_CLAIMED * QUICK_S / self._seconds))
        return most - self.claimed if self.claimed <= max(most // 2, SHARE - 1) else 0

    def note(self, answer: ReceiverResponse | None) -> None:
        """Count an answer; a slow or failed one counts at once, quick ones by and by."""
        self.claimed -= 1
        if answer is not None:
            seconds = answer.seconds if answer.accepted else AHEAD_S
            self._seconds = max(QUICK_S, seconds, 0.7 * self._seconds + 0.3 * seconds)


class Courier:
    """Routes and delivers messages until it is stopped.

    ``poll_s``: Pause before checking for new messages and due deliveries, in seconds.
    """

    def __init__(
        self, webhooks: Webhooks, send: HttpSender, now: Clock, *, poll_s: float = POLL_S
    ) -> None:
        self._webhooks = webhooks
        self._send = send
        self._now = now
        self._poll_s = poll_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._lanes: defaultdict[str, Lane] = defaultdict(Lane)
        self._answers: queue.SimpleQueue[tuple[Delivery, ReceiverResponse | None]] = (
            queue.SimpleQueue()
        )
        self._unrecorded: list[tuple[Delivery, ReceiverResponse | None]] = []
        self._routes_at = time.monotonic()

    def start(self) -> None:
        """Start delivering in threads of this process."""
        self._thread = threading.Thread(target=self.run, name="courier", daemon=True)
        self._thread.start()

    def stop(self, *, patience_s: float = 20.0) -> None:
        """Stop sending, and wait at most ``patience_s`` seconds for outstanding responses.

        Unrecorded deliveries are sent again once their leases expire.
        """
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(patience_s)

    def run(self) -> None:
        """Deliver messages until `stop` is called."""
        pause_s = self._poll_s
        while not self._stopping.is_set():
            try:
                self._turn()
            except (StorageUnavailable, StorageDamaged) as error:
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                log.warning("courier.waits", reason=error.detail, seconds=pause_s)
            except Exception:
                pause_s = LONGEST_PAUSE_S
                log.exception("courier.failed", seconds=pause_s)
            else:
                pause_s = self._poll_s
                continue
            self._stopping.wait(pause_s)
        for lane in self._lanes.values():
            lane.pool.shutdown()  # what was not begun is given back
        self._send.close()
        try:
            self._collect(0.0)
            self._record()
        except StorageUnavailable as error:
            log.warning("courier.unrecorded", reason=error.detail, attempts=len(self._unrecorded))
        log.info("courier.stopped")

    def _turn(self) -> None:
        self._record()
        self._route()
        self._claim()
        if self._lanes:
            self._collect(self._poll_s)
        else:
            self._stopping.wait(self._poll_s)

    def _route(self) -> None:
        # At most once per poll_s, although each response starts a new turn: routing many messages
        # takes little longer than routing one.
        now = time.monotonic()
        if now >= self._routes_at:
            self._routes_at = now + self._poll_s
            self._webhooks.route()

    def _claim(self) -> None:
        rooms = {endpoint_id: lane.room() for endpoint_id, lane in self._lanes.items()}
        claimed_at = time.monotonic()
        for parcel in self._webhooks.claim(rooms, otherwise=SHARE):
            lane = self._lanes[parcel.endpoint.id]
            lane.claimed += 1
            lane.pool.submit(self._attempt, lane, parcel, claimed_at + HELD_S)
        for endpoint_id in [name for name, lane in self._lanes.items() if not lane.claimed]:
            self._lanes.pop(endpoint_id).pool.shutdown(wait=False)

    def _attempt(self, lane: Lane, parcel: Parcel, until: float) -> None:
        if self._stopping.is_set() or lane.gone or time.monotonic() > until:
            self._answers.put((parcel.delivery, None))
            return
        started_at = self._now()
        try:
            answer = self._send(parcel)
        except Exception as error:
            # Our own error. It counts as an attempt, or it would be retried indefinitely.
            log.exception("delivery.failed", delivery_id=parcel.delivery.id)
            answer = ReceiverResponse(
                started_at, 0.0, error=f"a fault of Setwise: {type(error).__name__}"
            )
        if answer.status == GONE:
            lane.gone = True
        self._answers.put((parcel.delivery, answer))

    def _collect(self, patience_s: float) -> None:
        """Collect responses, after waiting for the first one.

        While its endpoint has messages to go on with, wait a little for more to record together.
        """
        ends = time.monotonic() + patience_s
        while True:
            left = ends - time.monotonic()
            try:
                delivery, answer = self._answers.get(left > 0, max(left, 0.0))
            except queue.Empty:
                return
            lane = self._lanes[delivery.endpoint_id]
            lane.note(answer)
            self._unrecorded.append((delivery, answer))
            ends = 0.0 if lane.room() else min(ends, time.monotonic() + GATHERED_S)

    def _record(self) -> None:
        if not self._unrecorded:
            return
        # Kept until the commit, so that responses survive an unavailable database.
        recorded = self._webhooks.record(self._unrecorded)
        answered = self._unrecorded
        self._unrecorded = []
        _log(answered, {delivery.id: delivery for delivery in recorded})


def _log(
    answered: Iterable[tuple[Delivery, ReceiverResponse | None]], stored: dict[str, Delivery]
) -> None:
    for delivery, answer in answered:
        if answer is None:
            continue
        after = stored.get(delivery.id)
        write = log.debug if answer.accepted else log.warning
        write(
            "delivery.attempted",
            delivery_id=delivery.id,
            message_id=delivery.message.id,
            webhook_id=delivery.endpoint_id,
            attempt=delivery.attempt,
            status=answer.status,
            error=answer.error,
            seconds=round(answer.seconds, 3),
            state=after.state.value if after else "taken over",
        )
        if after is not None and after.state is DeliveryState.DEAD:
            log.error("delivery.dead", delivery_id=delivery.id, webhook_id=delivery.endpoint_id)

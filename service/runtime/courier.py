"""Delivers messages: one thread routes, claims and records, others call the endpoints.

Deliveries have leases and fencing tokens, like jobs, so any number of couriers can share the table.
A courier runs beside the job worker, so that long jobs do not delay messages.
"""

import queue
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import structlog

from setwise.service.domain.errors import StorageDamaged, StorageUnavailable
from setwise.service.domain.webhooks import Delivery, DeliveryState, Parcel, ReceiverResponse
from setwise.service.runtime.polling import LONGEST_PAUSE_S, POLL_S
from setwise.service.runtime.sender import HttpSender
from setwise.service.services.webhooks import Webhooks
from setwise.service.stores.database import Clock

MOST_AT_ONCE = 16
"""Most attempts in progress in a process; each runs in a thread."""

SHARE = 4
"""Most attempts in progress to an endpoint, so that one that hangs does not delay the others."""

log = structlog.get_logger(__name__)


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
        self._busy: Counter[str] = Counter()
        self._answers: queue.SimpleQueue[tuple[Delivery, ReceiverResponse]] = queue.SimpleQueue()
        self._unrecorded: list[tuple[Delivery, ReceiverResponse]] = []
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
        with ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="delivery") as pool:
            while not self._stopping.is_set():
                try:
                    self._turn(pool)
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
        try:
            self._collect(0.0)
            self._record()
        except StorageUnavailable as error:
            log.warning("courier.unrecorded", reason=error.detail, attempts=len(self._unrecorded))
        log.info("courier.stopped")

    def _turn(self, pool: ThreadPoolExecutor) -> None:
        self._record()
        claimed: list[Parcel] = []
        room = MOST_AT_ONCE - self._busy.total()
        if room:
            self._route()
            claimed = self._webhooks.claim(self._busy, room=room, share=SHARE)
        for parcel in claimed:
            self._busy[parcel.endpoint.id] += 1
            pool.submit(self._attempt, parcel)
        if self._busy.total():
            self._collect(self._poll_s)
        elif not claimed:
            self._stopping.wait(self._poll_s)

    def _route(self) -> None:
        # At most once per poll_s, although each response starts a new turn: routing many messages
        # takes little longer than routing one.
        now = time.monotonic()
        if now >= self._routes_at:
            self._routes_at = now + self._poll_s
            self._webhooks.route()

    def _attempt(self, parcel: Parcel) -> None:
        started_at = self._now()
        try:
            answer = self._send(parcel)
        except Exception as error:
            # Our own error. It counts as an attempt, or it would be retried indefinitely.
            log.exception("delivery.failed", delivery_id=parcel.delivery.id)
            answer = ReceiverResponse(
                started_at, 0.0, error=f"a fault of Setwise: {type(error).__name__}"
            )
        self._answers.put((parcel.delivery, answer))

    def _collect(self, patience_s: float) -> None:
        """Collect all available responses, after waiting for the first one."""
        try:
            while True:
                block = patience_s > 0
                delivery, answer = self._answers.get(block, patience_s if block else None)
                self._busy -= Counter([delivery.endpoint_id])
                self._unrecorded.append((delivery, answer))
                patience_s = 0.0
        except queue.Empty:
            return

    def _record(self) -> None:
        if not self._unrecorded:
            return
        # Kept until the commit, so that responses survive an unavailable database.
        recorded = self._webhooks.record(self._unrecorded)
        outcomes = {delivery.id: delivery for delivery in recorded}
        for delivery, answer in self._unrecorded:
            after = outcomes.get(delivery.id)
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
        self._unrecorded = []

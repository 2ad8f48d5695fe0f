"""Delivers messages: one thread routes, claims and records; a few others wait for endpoints.

Deliveries have leases and fencing tokens of their own, as jobs have: any number of couriers, in
servers and in workers, share one table. Beside the job worker, so that a fit of half an hour
delays no message.
"""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

import structlog

from setwise.service.domain.errors import StorageUnavailable
from setwise.service.domain.webhooks import Answer, Delivery, DeliveryState
from setwise.service.services.deliver import (
    ClaimDeliveries,
    Parcel,
    RecordAnswers,
    RouteMessages,
    Sender,
)

MOST_AT_ONCE = 16
"""Attempts under way in one process; each is a thread that waits for an endpoint."""

SHARE = 4
"""Attempts under way to one endpoint, so that one that hangs holds up nobody else."""

LONGEST_PAUSE_S = 30.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class DeliveryVerbs:
    """What a courier does with deliveries."""

    route: RouteMessages
    claim: ClaimDeliveries
    record: RecordAnswers


class Courier:
    """Routes and delivers until it is stopped.

    Parameters
    ----------
    poll_s : float
        Pause between two looks for new messages, and for what is due while nothing is under
        way, in seconds.
    """

    def __init__(
        self, verbs: DeliveryVerbs, send: Sender, now: Callable[[], datetime], *, poll_s: float
    ) -> None:
        self._verbs = verbs
        self._send = send
        self._now = now
        self._poll_s = poll_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._busy: Counter[str] = Counter()
        self._answers: queue.SimpleQueue[tuple[Delivery, Answer]] = queue.SimpleQueue()
        self._unrecorded: list[tuple[Delivery, Answer]] = []
        self._routes_at = time.monotonic()

    def start(self) -> None:
        """Deliver in threads of this process."""
        self._thread = threading.Thread(target=self.run, name="courier", daemon=True)
        self._thread.start()

    def stop(self, *, patience_s: float = 20.0) -> None:
        """Send nothing more, and wait a while for the answers that are due.

        What is not recorded by then is sent again once its lease runs out.
        """
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(patience_s)

    def run(self) -> None:
        """Deliver until `stop`."""
        pause_s = self._poll_s
        with ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="delivery") as pool:
            while not self._stopping.is_set():
                try:
                    self._turn(pool)
                except StorageUnavailable as error:
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
        self._send.close()
        log.info("courier.stopped")

    def _turn(self, pool: ThreadPoolExecutor) -> None:
        self._record()
        claimed: list[Parcel] = []
        room = MOST_AT_ONCE - self._busy.total()
        if room:
            self._route()
            claimed = self._verbs.claim(self._busy, room=room, share=SHARE)
        for parcel in claimed:
            self._busy[parcel.endpoint.id] += 1
            pool.submit(self._attempt, parcel)
        if self._busy.total():
            self._collect(self._poll_s)
        elif not claimed:
            self._stopping.wait(self._poll_s)

    def _route(self) -> None:
        # Answers bring the next turn forward, but not this: many messages are routed at once in
        # little longer than one.
        now = time.monotonic()
        if now >= self._routes_at:
            self._routes_at = now + self._poll_s
            self._verbs.route()

    def _attempt(self, parcel: Parcel) -> None:
        started_at = self._now()
        try:
            answer = self._send(parcel)
        except Exception as error:
            # Ours, not the endpoint's; counted all the same, or it would be repeated for ever.
            log.exception("delivery.failed", delivery_id=parcel.delivery.id)
            answer = Answer(started_at, 0.0, error=f"a fault of Setwise: {type(error).__name__}")
        self._answers.put((parcel.delivery, answer))

    def _collect(self, patience_s: float) -> None:
        """Take every answer that has come, waiting for the first one."""
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
        # Kept until the commit: an answer that cannot be recorded now is recorded later.
        recorded = self._verbs.record(self._unrecorded)
        outcomes = {delivery.id: delivery for delivery in recorded}
        for delivery, answer in self._unrecorded:
            after = outcomes.get(delivery.id)
            told = log.debug if answer.accepted else log.warning
            told(
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

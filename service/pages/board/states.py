"""How each part of the board stands, in a line, and whether somebody should look at it."""

from datetime import datetime, timedelta
from typing import NamedTuple

from setwise.service.domain.breaker import Position
from setwise.service.domain.callers import Caller, Permission
from setwise.service.domain.jobs import JobFilter, JobState
from setwise.service.domain.policy import RoutingPolicy
from setwise.service.domain.webhooks import DeliveryState
from setwise.service.pages.board.models import short
from setwise.service.pages.board.policy import threshold_in_words
from setwise.service.pages.figures.numerals import confidence
from setwise.service.services.verbs import Verbs

SOON = timedelta(days=14)
"""How long before a key expires somebody should make the next one."""


class State(NamedTuple):
    """A line, and whether something is wrong."""

    words: str
    wrong: bool = False


def states(verbs: Verbs, caller: Caller, now: datetime) -> dict[str, State]:
    """Return the lines by the address of their section."""
    told = {
        "/board/policy": _policy(verbs.get_policy(caller)),
        "/board/models": _models(verbs, caller),
        "/board/jobs": _jobs(verbs, caller),
        "/board/webhooks": _webhooks(verbs, caller),
        "/board/deliveries": _deliveries(verbs, caller),
        "/board/keys": _keys(verbs, caller, now),
        "/board/people": _people(verbs, caller),
    }
    if caller.may(Permission.REPORT):
        tripped = verbs.get_breaker(caller).watch.position is Position.TRIPPED
        told["/board/breaker"] = (
            State("Tripped: nothing is sent.", wrong=True) if tripped else State("Not tripped.")
        )
        told["/board/certifications"] = _certifications(verbs, caller)
    return told


def _policy(policy: RoutingPolicy) -> State:
    if not policy.auto_send:
        return State("Sending is switched off.")
    return State(f"Threshold: {threshold_in_words(policy)}.", wrong=policy.threshold is None)


def _certifications(verbs: Verbs, caller: Caller) -> State:
    newest = verbs.list_certifications(caller, limit=1).items
    if not newest:
        return State("None so far.")
    proved = newest[0].threshold
    if proved is None:
        return State("The last one proved nothing.")
    return State(f"The last one proved {confidence(proved)}.")


def _models(verbs: Verbs, caller: Caller) -> State:
    models = verbs.list_models(caller)
    serving = next((one for one in models if one.active), None)
    if serving is None:
        return State("None serves, so nothing can be predicted.", wrong=True)
    return State(f"{short(serving.version)} serves; {len(models):,} registered.")


def _jobs(verbs: Verbs, caller: Caller) -> State:
    newest = verbs.jobs.page(caller, JobFilter(state=JobState.FAILED), limit=1).items
    if newest:
        return State(f"The last failure was on {newest[0].created_at:%-d %B}.", wrong=True)
    return State("None failed.")


def _webhooks(verbs: Verbs, caller: Caller) -> State:
    found = verbs.list_webhooks(caller)
    off = sum(not one.enabled for one in found)
    if not found:
        return State("None so far.")
    return State(f"{len(found):,}, {off:,} of them off." if off else f"{len(found):,}, all on.")


def _deliveries(verbs: Verbs, caller: Caller) -> State:
    dead = verbs.list_deliveries(caller, state=DeliveryState.DEAD, limit=1).items
    return State("Some were given up.", wrong=True) if dead else State("None was given up.")


def _keys(verbs: Verbs, caller: Caller, now: datetime) -> State:
    working = [one for one in verbs.list_keys(caller) if not one.revoked and not one.expired(now)]
    ending = [one for one in working if one.expired(now + SOON)]
    if ending:
        return State(f"{ending[0].name} expires on {ending[0].expires_at:%-d %B}.", wrong=True)
    return State(f"{len(working):,} in use.")


def _people(verbs: Verbs, caller: Caller) -> State:
    return State(f"{sum(not one.disabled for one in verbs.list_people(caller)):,} may sign in.")

"""Certifications: ask for one, and read what came of each and on what evidence."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from setwise.service.domain.callers import Permission
from setwise.service.pages.board.frame import framed
from setwise.service.pages.board.jobs import HERE as JOBS
from setwise.service.pages.rendering import Page, go
from setwise.service.pages.sign_in import request_id_of
from setwise.service.pages.visitors import Visitors
from setwise.service.services.verbs import Verbs
from setwise.service.sign_in.sessions import Visit

HERE = "/board/certifications"
PAGE = 25

REASONS = {
    "no-predictions": "nothing has been predicted yet",
    "no-audits": "nothing has been audited yet",
    "target-unprovable": "no number of audits shows that all are right",
    "too-few-audits": "the audits look good enough, but there are too few of them",
    "below-target": "not even the surest sets seem to reach the target",
    "blocked-at-top": "the surest sets fail, though a lower threshold would do",
    "miss-rate-unknown": "how many errors auditors overlook is not known; have some audits that "
    "agree read again",
    "noise-too-high": "the answers of some group say nothing",
}
"""Why nothing was proved, as people read it."""

COUNTS = {
    "n_audits": "Audits that count",
    "n_predictions": "Predictions that lay out the thresholds",
    "errors_known": "Errors among audits read again",
    "errors_missed": "Of these, missed by the auditor",
    "reread_rate": "Share of audits read again",
    "test_risk": "Risk left for this attempt",
}


def certification_pages(verbs: Verbs, visitors: Visitors) -> APIRouter:
    """Return the routes of the certifications."""
    router = APIRouter(route_class=Page)

    @router.get(HERE)
    def show(
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT, Permission.REPORT))],
        after: str | None = None,
    ) -> Response:
        """List the attempts to prove a threshold."""
        values = {
            "found": verbs.list_certifications(visit.caller, after=after, limit=PAGE),
            "at_start": after is None,
            "why": why,
        }
        return framed("board_certifications.html", values, visit=visit, section=HERE)

    @router.post(HERE)
    def request(
        request: Request,
        visit: Annotated[Visit, Depends(visitors.who_sends(Permission.ADMINISTER))],
    ) -> Response:
        """Ask for a certification, and follow its job."""
        job = verbs.request_certification(visit.caller, request_id=request_id_of(request))
        return go(f"{JOBS}/{job.id}")

    @router.get(f"{HERE}/{{certification_id}}")
    def one(
        certification_id: str,
        visit: Annotated[Visit, Depends(visitors.who_may(Permission.INSPECT, Permission.REPORT))],
    ) -> Response:
        """Show one attempt with its evidence."""
        made = verbs.get_certification(visit.caller, certification_id)
        values = {
            "made": made,
            "why": why,
            "counts": counts(made.evidence),
            "steps": steps(made.evidence),
            "excluded": excluded(made.evidence),
        }
        return framed("board_certification.html", values, visit=visit, section=HERE)

    return router


def why(reason: str | None) -> str:
    """Say why nothing was proved.

    >>> why("no-audits"), why("stars-wrong")
    ('nothing has been audited yet', 'stars wrong')
    """
    return REASONS.get(reason or "", (reason or "").replace("-", " "))


def counts(evidence: Mapping[str, object]) -> list[tuple[str, object]]:
    """Return the numbers of the evidence that people ask for.

    >>> counts({"n_audits": 4, "steps": []})
    [('Audits that count', 4)]
    """
    return [(shown, evidence[name]) for name, shown in COUNTS.items() if name in evidence]


def excluded(evidence: Mapping[str, object]) -> list[tuple[str, object]]:
    """Return how many audits were left out, by the reason."""
    found = evidence.get("excluded")
    return [(str(why), n) for why, n in found.items() if n] if isinstance(found, Mapping) else []


def steps(evidence: Mapping[str, object]) -> list[Mapping[str, object]]:
    """Return the thresholds that were tested, in the order of the tests."""
    found = evidence.get("steps")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []

"""What all pages of the board share: the way around, notices, and questions before a change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlencode

from fastapi import Response

from setwise.service.domain.callers import Permission
from setwise.service.pages.rendering import go, page
from setwise.service.sign_in.sessions import Visit

BOARD = "/board"


@dataclass(frozen=True)
class Section:
    """A part of the board.

    Attributes
    ----------
    meaning : str
        What is done there, for the first page.
    """

    name: str
    address: str
    meaning: str
    needed: Permission = Permission.INSPECT


SECTIONS: tuple[Section, ...] = (
    Section("Policy", "/board/policy", "What is sent without a person, and what is checked."),
    Section(
        "Breaker",
        "/board/breaker",
        "What stops sending, and how it starts again.",
        Permission.REPORT,
    ),
    Section("Certifications", "/board/certifications", "What audits prove, and on what evidence."),
    Section("Models", "/board/models", "Which model serves, and how others compare with it."),
    Section(
        "Calibrators",
        "/board/calibrators",
        "What reviews taught, before and after.",
        Permission.REPORT,
    ),
    Section("Jobs", "/board/jobs", "Work in the background: progress, results, errors."),
    Section("Webhooks", "/board/webhooks", "Who is told of what happens."),
    Section("Deliveries", "/board/deliveries", "What was sent to webhooks, and what was not."),
    Section("Keys", "/board/keys", "What programs may call, and for how long."),
    Section("People", "/board/people", "Who signs in, and as what."),
    Section("Groups", "/board/groups", "Who errs alike, and how often.", Permission.REPORT),
    Section(
        "Audit trail",
        "/board/audit",
        "Who did what, from where, to which thing.",
        Permission.READ_AUDIT_TRAIL,
    ),
    Section("Settings", "/board/settings", "What this server was started with."),
)

NOTICES = {
    "policy-saved": "The policy is in force from now on.",
    "model-activated": "The model serves now; other processes follow within seconds.",
    "model-rolled-back": "The model that served before serves again.",
    "model-sound": "The model loads and predicts.",
    "shadow-begun": "The model scores live documents from now on and decides nothing.",
    "shadow-ended": "The model scores live documents no longer; what it said is kept.",
    "breaker-reset": "Confident label sets are sent again from now on.",
    "calibrator-activated": "The calibrator serves now; other processes follow within seconds.",
    "calibrator-rolled-back": "The calibrator that served before serves again.",
    "group-made": "The group is made.",
    "group-changed": "The group is changed.",
    "annotator-placed": "They are placed; earlier answers stay with the group at the time.",
    "job-cancelled": "The job is cancelled; what it has done stays.",
    "job-retried": "The job is queued again and goes on where it stopped.",
    "webhook-changed": "The webhook is changed.",
    "webhook-deleted": "The webhook is deleted; its log stays.",
    "dead-replayed": "What was given up is due again.",
    "delivery-replayed": "The message is due again, at once.",
    "key-revoked": "The key opens nothing any more; every process notices within seconds.",
    "person-created": "The account is made.",
    "person-changed": "The account is changed.",
    "person-disabled": "The account is shut; every session of it has ended.",
    "person-enabled": "The account is open again.",
    "password-set": "The password is set; every session of the account has ended.",
}
"""What a page says after a change, by the word in its address."""


def framed(
    template: str,
    values: Mapping[str, object],
    *,
    visit: Visit,
    section: str,
    notice: str = "",
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    """Return a page of the board.

    Parameters
    ----------
    section : str
        Address of the section that the page belongs to.
    notice : str
        One of `NOTICES`; anything else says nothing.
    """
    shared = {
        "section": section,
        "sections": [one for one in SECTIONS if visit.caller.may(one.needed)],
        "notice": NOTICES.get(notice),
        "may_change": visit.caller.may(Permission.ADMINISTER),
    }
    return page(template, {**shared, **values}, visit=visit, status=status)


def done(address: str, notice: str) -> Response:
    """Take the browser to a page that says what was done."""
    return go(f"{address}?{urlencode({'done': notice})}")


@dataclass(frozen=True)
class Question:
    """What a person is asked, once, before something happens that they might regret.

    Attributes
    ----------
    will : sequence of str
        What will happen, a sentence each.
    answer : str
        The button that lets it happen.
    address : str
        Where the answer is sent.
    back : str
        Where those go who would rather not.
    fields : mapping
        What is sent besides.
    dangerous : bool
        It takes something away.
    """

    heading: str
    will: Sequence[str]
    answer: str
    address: str
    back: str
    fields: Mapping[str, str] | None = None
    dangerous: bool = True

    def ask(
        self,
        visit: Visit,
        section: str,
        *,
        refusal: str | None = None,
        status: HTTPStatus = HTTPStatus.OK,
    ) -> Response:
        """Return the page that asks; ``refusal`` says why it could not be done when tried."""
        values = {"question": self, "refusal": refusal}
        return framed("board_question.html", values, visit=visit, section=section, status=status)

"""Certificates and the breaker: what audits prove, and when sending stops.

Question: what have audits shown, and is sending stopped?
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from http import HTTPStatus
from math import log
from urllib.parse import urlencode

from markupsafe import Markup

from setwise.models.figures.numerals import confidence, exactly, percent, plain, plural
from setwise.models.results import SequenceStep
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.breaker import (
    AuditCounts,
    BreakerState,
    DetectionDelay,
    Position,
    Reset,
    Trip,
    TripCause,
    Watch,
)
from setwise.service.domain.certification import (
    Certification,
    CertificationEvidence,
    CommonForm,
    NextAttempt,
)
from setwise.service.domain.documents import Audited
from setwise.service.domain.routing.segments import value_of
from setwise.service.pages import documents
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Action, BoardPage, Call, Nothing, SectionState
from setwise.service.pages.board.jobs import JOBS
from setwise.service.pages.board.outlook import outlook
from setwise.service.services.analysis.proofs import why_refused

CERTIFICATIONS = "/board/certifications"
BREAKER = "/board/breaker"
PAGE = 25
MOST_STEPS = 200

UNDIVIDED = (
    "It speaks of documents that come as they did then. Documents from a new site or source are "
    "sent under it too; with a field in segment_by they would wait."
)
"""What a certificate for all documents assumes; see docs/proof.md."""

COUNTS = {
    "n_audits": "Audits that count",
    "n_predictions": "Predictions that define the thresholds",
    "unfinished": "Of these, unfinished for too long, so counted as wrong",
    "undecided": "Of these, contradictions that no lead has decided, so counted as wrong",
    "other_models": "Of these, documents that another model answered",
    "held_back": "Of these, held back from audits then, so counted as wrong",
    "errors_known": "Errors among audits read again",
    "errors_missed": "Of these, missed by the auditor",
    "wrong_sets": "Sets that audits found wrong",
    "right_branch": "Of these, right branch, but wrong label below it",
    "reread_rate": "Share of audits read again",
    "test_risk": "Risk left for this attempt",
}


def _counts(evidence: CertificationEvidence) -> list[tuple[str, object]]:
    """Return the numbers of the evidence that readers ask for, and what was left out."""
    return [
        *(
            (shown, plain(number, 6))
            for name, shown in COUNTS.items()
            if (number := getattr(evidence, name)) is not None
        ),
        *(("Excluded", f"{n}: {reason}") for reason, n in evidence.excluded.items() if n),
    ]


def _stated(evidence: CertificationEvidence) -> list[tuple[str, object]]:
    """Return which documents counted of those that other models answered."""
    if evidence.trained_on_audits is False:
        return [("Trained on audits", "no, as an administrator states")]
    since = evidence.documents_since
    if since is None:
        return []
    return [("Documents of other models", ui.joined("from ", ui.instant(since, zone=True), " on"))]


_STEPS: Sequence[ui.Column[SequenceStep]] = [
    ui.Column(
        member.name.replace("_", " ").capitalize(),
        lambda step, name=member.name: _number(getattr(step, name)),  # type: ignore[misc]
        "count",
    )
    for member in fields(SequenceStep)
]


_FORMS: Sequence[ui.Column[CommonForm]] = (
    ui.Column(
        "Messages like",
        lambda form: ui.link(documents.of_document(form.example), "this one"),
        "head",
    ),
    ui.Column("Of the audits", lambda form: percent(form.share), "count"),
    ui.Column("Audits", lambda form: form.n_audits, "count"),
    ui.Column("Right", lambda form: percent(form.n_good / form.n_audits), "count"),
)


def _number(value: float | None) -> str | None:
    return None if value is None else plain(value, 6)


def _request(call: Call, _: Nothing) -> str:
    job = call.services.certification.request(call.caller)
    return f"{JOBS}/{job.id}"


def _certify_question(call: Call) -> ui.Question:
    attempts = call.services.outlook.next_attempts(call.caller)
    stays = [_holds(proof) for proof in call.services.certification.in_force(call.caller)]
    nothing = not any(attempt.gains for attempt in attempts)
    why = (
        "Without new audits an attempt finds the same as the last one."
        if attempts
        else "Nothing has been predicted yet, so there is nothing to audit."
    )
    return ui.Question(
        "Nothing to gain now" if nothing else "Certify now?",
        (
            *map(_spends, attempts),
            *((why,) if nothing else ()),
            *stays,
        ),
        None if nothing else "Certify now",
        CERTIFICATIONS,
    )


def _spends(attempt: NextAttempt) -> str:
    """Say what an attempt now tests, and what it uses of the reserve."""
    about = "" if attempt.segment is None else f"{value_of(attempt.segment)}: "
    left = percent(attempt.left, 2)
    tests = (
        f"{about}{attempt.new_audits:,} of {plural(attempt.audits, 'audit')} new since the last "
        "attempt."
    )
    later = (
        f" The schedule tests by itself after {plural(attempt.missing, 'more audit')}."
        if attempt.missing
        else ""
    )
    if not attempt.gains:
        return f"{tests}{later}"
    if not attempt.reserve:
        return (
            f"{tests} This is a look of the schedule, which pays for it; the reserve keeps its "
            f"{left} risk."
        )
    return (
        f"{tests} Certify now uses part of the reserve: {percent(attempt.reserve, 2)} risk of the "
        f"{percent(attempt.reserve + attempt.left, 2)} that is kept for attempts at a time that "
        f"you choose. {left} would be left.{later}"
    )


def _holds(proof: Certification) -> str:
    """Say which certificate holds, and until when."""
    proved = confidence(proof.threshold or 0.0)
    about = "" if proof.segment is None else f"{value_of(proof.segment)}: "
    return (
        f"{about}The certificate of {proof.created_at:%-d %B %Y}, from {proved}, holds "
        "until another one takes its place, the policy or the model changes, or the breaker trips."
    )


CERTIFY = Action(f"{CERTIFICATIONS}/now", _request, ask=_certify_question)


def _named(text: str, segment: str | None) -> str:
    """Return a text with the segment that it is about."""
    return text if segment is None else f"{text}, {value_of(segment)}"


def _outcome(attempt: Certification) -> Markup:
    if attempt.threshold is not None:
        return ui.joined(ui.badge("certified", "good"), f" from {confidence(attempt.threshold)}")
    more = attempt.further_audits
    return ui.joined(
        ui.badge("not certified", "warn"),
        f" {why_refused(attempt.reason)}",
        ui.sub(f"about {more:,} more audits would probably suffice") if more else "",
    )


def _audits(attempt: Certification) -> object:
    """Return the number of audits that count, with a link to the model's audits until then."""
    return documents.counted(
        attempt.evidence.n_audits,
        audited=Audited.DRAWN,
        model_version=attempt.scorer.model_version,
        segment=value_of(attempt.segment),
        created_before=f"{attempt.created_at:%Y-%m-%dT%H:%M:%S}",
    )


_COLUMNS: Sequence[ui.Column[Certification]] = (
    ui.Column(
        "When",
        lambda attempt: ui.joined(
            ui.link(f"{CERTIFICATIONS}/{attempt.id}", ui.instant(attempt.created_at)),
            ui.sub(_named(f"attempt {attempt.attempt}", attempt.segment)),
        ),
        "head",
    ),
    ui.Column("Outcome", _outcome),
    ui.Column("Target", lambda attempt: exactly(attempt.target_accuracy), "count"),
    ui.Column("Risk", lambda attempt: exactly(attempt.risk), "count"),
    ui.Column("Audits", _audits, "count"),
    ui.Column(
        "Model",
        lambda attempt: ui.link(
            documents.address(model_version=attempt.scorer.model_version),
            ui.code(attempt.scorer.model_version.removeprefix("sha256:")[:12]),
        ),
    ),
)


def _certifications(call: Call) -> ui.View:
    attempts = call.services.certification.page(call.caller, after=call.after, limit=PAGE)
    empty = Markup(
        "There are no attempts yet. Set a rate of certification audits in the {}; once "
        "reviewers have read some of them, certify."
    ).format(ui.link("/board/policy", "policy"))
    form, card = outlook(call, CERTIFICATIONS)
    gains = any(each.gains for each in call.services.outlook.next_attempts(call.caller))
    holding = [ui.text(_holds(each)) for each in call.services.certification.in_force(call.caller)]
    return ui.View(
        "Certificates",
        (
            *([ui.Card("In force", holding)] if holding else []),
            *card,
            ui.Table("Attempts", _COLUMNS, attempts.items, empty),
            ui.Pager(CERTIFICATIONS, attempts.next_after, {}, started=call.after is None),
        ),
        buttons=(ui.Go("Certify now", CERTIFY.address, ""),) if gains else (),
        lead="Attempts to certify a threshold: audits must prove that it keeps the target.",
        terms=("certificate", "audit", "threshold"),
        status=HTTPStatus.UNPROCESSABLE_ENTITY if form.faults else HTTPStatus.OK,
    )


def _copied(share: float) -> str:
    """Say how many of the audited messages are copies, and what they count for."""
    return (
        f"{percent(share)} of the audited messages are copies of another one. A certificate holds "
        "both for all messages and for the different documents among them."
    )


def _in_four_sentences(proof: Certification) -> str:
    """Say what holds, how surely, on how many readings, and what a larger share would take."""
    evidence = proof.evidence
    above, good = evidence.n_above or 0, evidence.n_good or 0
    share = percent(evidence.coverage or 0.0)
    if evidence.next_audits is not None and evidence.next_coverage is not None:
        more = (
            f"To send {percent(evidence.next_coverage)} would take about "
            f"{plural(evidence.next_audits, 'more audit')}."
        )
    elif (evidence.coverage or 0.0) >= 1.0:
        more = "No more can be sent."
    else:
        more = "At these confidences no number of audits would prove a larger share."
    of = f"of such sets, {good:,} of them right{_thin(proof)}"
    return (
        f"At least {exactly(proof.target_accuracy)} of the sets from a confidence of "
        f"{confidence(proof.threshold or 0.0)} up are right; these are {share} of the documents. "
        f"This rests on {plural(above, 'blind reading')} {of}. "
        f"The chance that it is wrong is at most {exactly(proof.risk)}, shared by all attempts. "
        f"{more}"
    )


def _thin(proof: Certification) -> str:
    """Say how many readings stand for documents that were read less often, if any do."""
    step = next((step for step in proof.evidence.steps if step.threshold == proof.threshold), None)
    if step is None or not step.thin_audits:
        return ""
    share = percent(step.thin_documents / step.documents)
    return (
        f"; {step.thin_audits:,} stand for the {share} of these documents that are read less often"
    )


def _certification(call: Call) -> ui.View:
    attempt = call.services.certification.get(call.caller, call.id)
    proved = attempt.threshold is not None
    if attempt.threshold is not None:
        heading = f"Certified from {confidence(attempt.threshold)}"
        lead = _in_four_sentences(attempt)
    else:
        heading = "Not certified"
        lead = (
            f"No threshold is certified to keep {exactly(attempt.target_accuracy)} right: "
            f"{why_refused(attempt.reason)}."
        )
        if attempt.further_audits:
            lead += f" About {attempt.further_audits:,} more audits would probably certify one."
    steps = attempt.evidence.steps
    evidence: list[ui.Piece] = [ui.Facts(_counts(attempt.evidence))]
    if steps:
        table = ui.Table("Tests", _STEPS, steps[:MOST_STEPS])
        tested = "1 threshold was" if len(steps) == 1 else f"{len(steps):,} thresholds were"
        evidence.append(ui.More(f"{tested} tested", [table]))
    forms = attempt.evidence.common_forms
    often = "Forms that come often"
    common = [ui.Card(often, [ui.Table(often, _FORMS, forms)])] if forms else []
    holds = attempt.threshold is not None and attempt.segment is None
    clusters = attempt.evidence.in_clusters
    about = (
        *([("Holds for", UNDIVIDED)] if holds else []),
        (
            "When",
            ui.joined(
                ui.instant(attempt.created_at, zone=True),
                f", attempt {attempt.attempt} for this model",
            ),
        ),
        ("Model", ui.code(attempt.scorer.model_version)),
        ("Calibrator", ui.code(attempt.scorer.calibrator_version)),
        ("Its audits", ui.joined(_audits(attempt))),
        ("Policy", ui.code(attempt.policy_version)),
        *([] if attempt.segment is None else [("Segment", value_of(attempt.segment))]),
        *([] if clusters is None else [("Copies", _copied(clusters))]),
        *_stated(attempt.evidence),
    )
    return ui.View(
        heading,
        (ui.Card("About", [ui.Facts(about)]), *common, ui.Card("Evidence", evidence)),
        title="Attempt",
        badge=ui.badge("certified", "good") if proved else ui.badge("not certified", "warn"),
        lead=lead,
        terms=("certificate", "confidence"),
    )


def _certifications_state(call: Call) -> SectionState:
    newest = call.services.certification.page(call.caller, limit=1).items
    if not newest:
        return SectionState("None so far.")
    proved = newest[0].threshold
    last = f"The last attempt certified {'nothing' if proved is None else confidence(proved)}."
    holding = call.services.certification.in_force(call.caller)
    held = ", ".join(confidence(proof.threshold or 0.0) for proof in holding)
    return SectionState(f"In force from {held}. {last}" if holding and proved is None else last)


# The breaker

CAUSES = {
    TripCause.DRIFT: "audits show that the target is no longer met",
    TripCause.STALE: "too much was sent without a completed audit, or too many audits are overdue",
}
_POSITIONS = {
    Position.TRIPPED: ui.badge("tripped", "bad"),
    Position.WATCHING: ui.badge("watching", "good"),
    Position.IDLE: ui.badge("idle"),
}


def _fixed(call: Call) -> bool:
    return not call.services.policy.get(call.caller).certified


def _reset(call: Call, _: Nothing) -> None:
    call.services.breaker.reset(call.caller, uncertified=_fixed(call))


def _reset_question(call: Call) -> ui.Question:
    return ui.Question(
        "Resume sending?",
        (
            "From the next document on, confident label sets are sent automatically again.",
            "The threshold was set by hand, so sending resumes on your decision alone: nothing "
            "proves it."
            if _fixed(call)
            else "It takes a certificate from audits since the trip; without one this is refused.",
            "Documents that were held back stay with the reviewers.",
            "The audit trail records who resumed sending, and when.",
        ),
        "Resume sending",
        BREAKER,
    )


RESET = Action(
    f"{BREAKER}/reset",
    _reset,
    ask=_reset_question,
    then=BREAKER,
    notices={"breaker-reset": "Confident label sets are sent again from now on."},
)


def _end(reset: Reset | None) -> Markup:
    if reset is None:
        return ui.badge("active", "bad")
    how = "by a certificate" if reset.certificate_id else "by hand"
    return ui.joined(ui.instant(reset.created_at), ui.sub(how))


_TRIPS: Sequence[ui.Column[tuple[Trip, Reset | None]]] = (
    ui.Column("When", lambda each: each[0].created_at, "head"),
    ui.Column("What", lambda each: value_of(each[0].segment) or "everything"),
    ui.Column("Cause", lambda each: CAUSES[each[0].cause]),
    ui.Column("Target", lambda each: exactly(each[0].target_accuracy)),
    ui.Column("Reset", lambda each: _end(each[1])),
)


def _tripped(state: BreakerState, trip: Trip) -> Markup:
    more = (
        f" About {state.further_audits:,} more audits would probably certify a threshold again."
        if state.further_audits
        else ""
    )
    since = ui.instant(trip.created_at, zone=True)
    what = "Nothing" if trip.segment is None else f"Nothing of {value_of(trip.segment)}"
    return ui.text(
        ui.joined(f"{what} has been sent since ", since, f": {CAUSES[trip.cause]}.{more}"), "alert"
    )


def _delay(target: float, delay: DetectionDelay) -> tuple[object, ...]:
    weeks = None if delay.weeks is None else plural(delay.weeks, "week")
    rate = None if delay.thrice is None else percent(delay.thrice)
    return exactly(target - delay.drop), weeks, delay.audits, rate


_DELAYS: Sequence[ui.Column[tuple[object, ...]]] = (
    ui.Column("Drop to", lambda row: row[0], "head"),
    ui.Column("Found after", lambda row: row[1] or ui.quiet("unknown"), "count"),
    ui.Column("Audits", lambda row: row[2], "count"),
    ui.Column("Audit rate for a third of that", lambda row: row[3], "count"),
)


def _audited(watch: Watch, tally: AuditCounts) -> Iterator[object]:
    """Yield how many audits were right, wrong or are incomplete, with links to them."""
    since = f"{watch.audits[0].created_at:%Y-%m-%dT%H:%M}" if watch.audits else None
    behind = {"segment": value_of(watch.gate.key), "created_from": since}
    yield documents.counted(tally.right, audited=Audited.AGREED, **behind)
    yield " right, "
    yield documents.counted(tally.wrong, audited=Audited.CONTRADICTED, **behind)
    yield " wrong, "
    yield documents.counted(tally.unfinished, audited=Audited.DRAWN, state="waiting", **behind)
    yield " incomplete"


def _status(state: BreakerState) -> str:
    """Say in a line whether sets are sent, and how many of them are right."""
    watch, counts = state.watch, state.watch.counts()
    read = counts.right + counts.wrong
    if watch.position is Position.IDLE:
        return "Nothing is sent automatically, so there is nothing to watch."
    doing = "Sending is on" if watch.position is Position.WATCHING else "Sending has stopped"
    target = exactly(watch.gate.policy.target_accuracy)
    if not read:
        return f"{doing}. No audit has been completed since the breaker was last reset."
    return f"{doing}. Audits found {counts.right:,} of {read:,} sets right; the target is {target}."


def _closeness(state: BreakerState) -> Iterator[tuple[str, object]]:
    """Yield how far the breaker is from stopping, for each of its causes."""
    watch, tally = state.watch, state.watch.counts()
    most = state.rule.freshness.most_documents
    evidence = watch.path[-1] if watch.path else 0.0
    # Evidence multiplies, so its way to the alarm is measured in factors.
    way = max(0.0, min(1.0, log(max(evidence, 1.0)) / log(watch.run_length)))
    yield from _segments(state)
    yield (
        "Evidence against the target",
        ui.joined(ui.bar(way), f"{plain(evidence)} of {plain(watch.run_length)}"),
    )
    sent = watch.unvouched.documents
    yield (
        "Sent since the last audit",
        ui.joined(ui.bar(min(1.0, sent / most)), f"{sent:,} of {most:,}") if most else sent,
    )
    yield "Audits", ui.joined(*_audited(watch, tally))
    if tally.overdue:
        yield "Overdue audits, which count as wrong", tally.overdue


def _advanced(state: BreakerState) -> Iterator[tuple[str, object]]:
    watch, share, copies = state.watch, state.accuracy, state.watch.copies
    yield "Accuracy of what is sent", percent(share.value)
    if share.value is not None:
        yield "Its bounds", f"{percent(share.low)} to {percent(share.high)}"
    yield "Chance of a false alarm so far", f"at most {percent(state.false_alarm_bound)}"
    yield "Last completed audit", ui.instant(watch.last_finished_at)
    yield "Oldest overdue audit", ui.instant(watch.overdue_since, "none")
    if copies:
        share_of_all = percent(copies / (copies + watch.counts().audits))
        yield "Copies left out", f"{copies:,}, {share_of_all} of all"


def _breaker(call: Call) -> ui.View:
    state = call.services.breaker.get(call.caller, call.query.get("segment"))
    target = state.watch.gate.policy.target_accuracy
    delays = call.services.breaker.delays(call.caller, call.query.get("segment"))
    rows = [_delay(target, each) for each in delays]
    copies = (
        "A document counts once however often it is sent, so clients should give each document its "
        "own id."
    )
    hints = (state.accuracy.correction, copies if state.watch.copies else "")
    return ui.View(
        "Breaker",
        (
            *([_tripped(state, state.trip)] if state.trip else []),
            ui.Card("How close it is to stopping", [ui.Facts(_closeness(state))]),
            ui.heading("Trips"),
            ui.Table("Trips", _TRIPS, state.trips, "None so far."),
            ui.More(
                "Advanced",
                [
                    ui.Facts(_advanced(state)),
                    *(ui.text(words, "hint") for words in hints if words),
                    ui.heading("How soon a drop would be found"),
                    ui.text("In half of the cases, at the present rate and volume.", "hint"),
                    ui.Table("How soon a drop would be found", _DELAYS, rows),
                ],
            ),
        ),
        badge=_POSITIONS[state.watch.position],
        buttons=(ui.Go("Resume sending", f"{BREAKER}/reset", "danger"),) if state.trip else (),
        lead=_status(state),
        terms=("breaker", "audit", "policy"),
    )


def _segments(state: BreakerState) -> Sequence[tuple[str, object]]:
    """Return the segment that the page is about, and links to the others."""
    if not state.segments:
        return ()
    shown = value_of(state.watch.gate.key)
    links = [
        ui.link(f"{BREAKER}?{urlencode({'segment': value})}", value)
        for value in state.segments
        if value != shown
    ]
    others = Markup(", ").join(links)
    return (("Segment", shown), *([("Others", others)] if links else []))


def _breaker_state(call: Call) -> SectionState:
    tripped = call.services.breaker.get(call.caller).watch.position is Position.TRIPPED
    return (
        SectionState("Tripped: nothing is sent.", wrong=True)
        if tripped
        else SectionState("Not tripped.")
    )


_NEEDED = (Permission.REPORT, Permission.INSPECT)
BREAKER_PAGE = BoardPage(
    BREAKER,
    _breaker,
    (RESET,),
    name="Breaker",
    meaning="What stops sending, and how it resumes.",
    state=_breaker_state,
    needed=_NEEDED,
)
PAGES = (
    BREAKER_PAGE,
    BoardPage(
        CERTIFICATIONS,
        _certifications,
        (CERTIFY,),
        name="Certificates",
        meaning="Which threshold audits certify, and on what evidence.",
        state=_certifications_state,
        needed=_NEEDED,
    ),
    BoardPage(
        f"{CERTIFICATIONS}/{{certification_id}}",
        _certification,
        section=CERTIFICATIONS,
        needed=_NEEDED,
    ),
)

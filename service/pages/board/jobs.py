"""Jobs: progress, results and errors; cancel one, or retry one.

Question: is it done yet, and if not, why?
"""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.jobs import Job, JobFilter, JobState
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Action, BoardPage, Call, SectionState
from setwise.service.pages.forms import Filled, select

JOBS = "/board/jobs"
PAGE = 50

RECURRING = {
    "certify_if_due": "Certify when due",
    "expire_leases": "Return expired leases",
    "settle_decisions": "Submit decisions",
    "sweep_files": "Remove old files",
    "purge_texts": "Erase old texts",
    "purge_responses": "Forget old responses",
    "erase_traces": "Erase a document from files",
    "watch_audits": "Watch the audits",
    "retrain_if_due": "Train the next model",
}
INTERNAL = {**RECURRING, "rescore": "Bring the order of reading up to date"}
"""What the service does by itself: it is of interest only where it fails."""
KINDS = {
    "scoring": "Score a file",
    "export": "Export",
    "follow_label": "Rename a label in documents",
    "forget_label": "Remove a label from documents",
    "compare": "Compare a model",
    "certification": "Certify a threshold",
    "calibration": "Retrain the calibrator",
    "retraining": "Retrain the model",
    **INTERNAL,
}
RESULTS = {
    "active": "Activated",
    "calibration_id": "Report",
    "calibrator_version": "Calibrator",
    "certification_id": "Report",
    "model_version": "Version",
    "on_audits": "On the same audits",
    "shadow": "Shadow run",
    "reason": "Reason",
}
"""Labels for members of a job's result whose names are hard to read."""

_TONES: Mapping[JobState, ui.Tone] = {
    JobState.SUCCEEDED: "good",
    JobState.FAILED: "bad",
    JobState.RUNNING: "leased",
}


def name(kind: str) -> str:
    """Return the title of a kind of job.

    >>> name("scoring"), name("knit_socks")
    ('Score a file', 'Knit socks')
    """
    return KINDS.get(kind, kind.replace("_", " ").capitalize())


def _cancel_question(call: Call) -> ui.Question:
    job = call.services.jobs.get(call.caller, call.id)
    return ui.Question(
        f"Cancel “{name(job.kind)}”?",
        (
            f"It stops at the next safe point; it is {job.progress:.0%} done."
            if job.started_at
            else "It has not started, and will not start.",
            "What it has done so far stays.",
            "You can retry it; it then continues where it stopped.",
        ),
        "Cancel job",
        f"{JOBS}/{job.id}",
    )


_ONE = f"{JOBS}/{{job_id}}"
CANCEL = Action(
    f"{_ONE}/cancel",
    lambda call, _: call.services.jobs.cancel(call.caller, call.id),
    ask=_cancel_question,
    then=_ONE,
    notices={"job-cancelled": "The job is cancelled; what it has done stays."},
)
RETRY = Action(
    f"{_ONE}/retry",
    lambda call, _: call.services.jobs.retry(call.caller, call.id),
    then=_ONE,
    notices={"job-retried": "The job is queued again and continues where it stopped."},
)


def _state(job: Job) -> Markup:
    if job.state is JobState.QUEUED:
        waits = job.kind in RECURRING and not job.error
        return ui.badge("recurring" if waits else "queued", "warn" if job.error else "")
    if job.state is JobState.SUCCEEDED and (job.result or {}).get("faulty"):
        return ui.badge("finished with errors", "warn")
    shown = ui.badge(job.state, _TONES.get(job.state, ""))
    return ui.joined(shown, f" {job.progress:.0%}") if job.state is JobState.RUNNING else shown


def _ended(job: Job) -> Markup:
    if job.finished_at:
        return ui.instant(job.finished_at)
    if job.kind in RECURRING:
        return ui.joined(ui.quiet("next"), " ", ui.instant(job.due_at))
    return ui.quiet("not yet")


_COLUMNS: Sequence[ui.Column[Job]] = (
    ui.Column(
        "Job",
        lambda job: ui.joined(
            ui.link(f"{JOBS}/{job.id}", name(job.kind)),
            ui.sub((job.error or job.message or "")[:120]),
        ),
        "head",
    ),
    ui.Column("State", _state),
    ui.Column("Requested", lambda job: job.created_at),
    ui.Column("Started", lambda job: ui.instant(job.started_at, "not yet")),
    ui.Column("Ended", _ended),
)


def _jobs(call: Call) -> ui.View:
    state, kind = call.query.get("state", ""), call.query.get("kind", "")
    query = {k: v for k, v in (("state", state), ("kind", kind)) if v}
    filters = JobFilter(
        kind=kind or None, state=JobState(state) if state in set(JobState) else None
    )
    page = call.services.jobs.page(call.caller, filters, after=call.after, limit=PAGE)
    states = [("", "any state"), *((member.value, member.value) for member in JobState)]
    inputs = {
        "state": select("State", states),
        "kind": select("Kind", [("", "any kind"), *KINDS.items()]),
    }
    show_all = ui.joined(" ", ui.link(JOBS, "Show all.")) if query else ""
    quiet = [job for job in page.items if not query and job.kind in INTERNAL and not job.error]
    shown = [job for job in page.items if job not in quiet]
    empty = ui.joined("No jobs match.", show_all) if query else "No jobs were requested."
    parts: list[ui.Piece] = [
        ui.Filters(JOBS, inputs, Filled.of(**query)),
        ui.Table("Jobs", _COLUMNS, shown, empty),
    ]
    if quiet:
        table = ui.Table("Internal jobs", _COLUMNS, quiet, "")
        parts.append(ui.More(f"What Setwise does by itself ({len(quiet)})", (table,)))
    parts.append(ui.Pager(JOBS, page.next_after, query, started=call.after is None))
    return ui.View("Jobs", parts, lead="What people and programs requested.")


def _result(name: str, value: object) -> tuple[str, object]:
    """Return a member of a job's result as people read it.

    >>> _result("attempts", [{"certification_id": "0193", "segment": "north"}])[1]
    Markup('<a href="/board/certifications/0193">north</a>')
    """
    title = RESULTS.get(name) or name.replace("_", " ").capitalize()
    if name == "calibration_id":
        return title, ui.link(f"/board/calibrators/{value}", "the calibrator and its report")
    if name == "certification_id":
        return title, ui.link(f"/board/certifications/{value}", "the attempt")
    if name == "attempts" and isinstance(value, list):
        links = (
            ui.link(f"/board/certifications/{item['certification_id']}", str(item["segment"]))
            for item in value
        )
        return title, Markup(", ").join(links)
    if name == "model_id":
        return title, ui.link(f"/board/models/{value}", "the model")
    if isinstance(value, Mapping):
        pairs = (
            (key.replace("_", " "), item) for key, item in value.items() if item not in ({}, None)
        )
        return title, ", ".join(f"{key} {text}" for key, text in pairs)
    return title, "–" if value is None else value  # noqa: RUF001 -- the dash for nothing


def _job(call: Call) -> ui.View:
    job = call.services.jobs.get(call.caller, call.id)
    parts: list[ui.Piece] = []
    if job.error:
        again = ui.joined(" It is retried at ", ui.instant(job.due_at, zone=True), ".")
        parts.append(ui.text(ui.joined(job.error, "" if job.finished else again), "alert"))
    if job.state is JobState.RUNNING:
        parts.append(ui.progress(job.progress))
    facts: list[tuple[str, object]] = [
        (
            "Requested",
            ui.joined(
                ui.instant(job.created_at, zone=True),
                ", by the service itself" if job.owner_id is None else "",
            ),
        ),
        (
            "Started",
            ui.joined(
                ui.instant(job.started_at, "not yet"),
                f", attempt {job.attempt}" if job.attempt > 1 else "",
            ),
        ),
    ]
    if job.finished_at:
        facts.append(("Ended", job.finished_at))
    elif job.state is JobState.QUEUED:
        facts.append(("Next turn", job.due_at))
    facts += [_result(*each) for each in sorted((job.result or {}).items()) if each[0] != "message"]
    if job.payload.get("model_id"):
        address = f"/board/models/{job.payload['model_id']}"
        facts.append(("Model", ui.link(address, "the model and its comparison")))
    parts += [ui.status(job.message), ui.Facts(facts)]
    if not job.finished and job.owner_id is not None:
        parts.append(ui.Buttons((ui.Go("Cancel", f"{JOBS}/{job.id}/cancel"),)))
    elif job.finished and job.state is not JobState.SUCCEEDED:
        parts.append(ui.Buttons((ui.Press("Retry", f"{JOBS}/{job.id}/retry", ""),)))
    return ui.View(name(job.kind), parts, badge=_state(job), live="job", settled=job.finished)


def _jobs_state(call: Call) -> SectionState:
    failed = call.services.jobs.page(call.caller, JobFilter(state=JobState.FAILED), limit=1).items
    if failed:
        return SectionState(f"The last failure was on {failed[0].created_at:%-d %B}.", wrong=True)
    return SectionState("None failed.")


_NEEDED = (Permission.RUN_JOBS, Permission.INSPECT)
PAGES = (
    BoardPage(
        JOBS,
        _jobs,
        name="Jobs",
        meaning="Work in the background: progress, results, errors.",
        state=_jobs_state,
        needed=_NEEDED,
    ),
    BoardPage(_ONE, _job, (CANCEL, RETRY), section=JOBS, needed=_NEEDED),
)

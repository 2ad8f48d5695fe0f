"""Groups of annotators: who belongs to which, and their error rates.

Question: whose answers can be relied on?
"""

from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

from markupsafe import Markup

from setwise.models.figures import numerals
from setwise.service.domain.accounts.callers import Permission
from setwise.service.domain.annotators import Rates
from setwise.service.domain.documents import Audited
from setwise.service.domain.errors import FieldFault, InvalidRequest, StaleVersion
from setwise.service.domain.reports import FEW
from setwise.service.pages import documents
from setwise.service.pages.board import parts as ui
from setwise.service.pages.board.engine import Action, BoardPage, Call, SectionState
from setwise.service.requests import Input
from setwise.service.requests.annotators import (
    SET_BY_HAND,
    AnnotatorRequest,
    GroupRequest,
)
from setwise.service.services.analysis.noise import GroupReport, NoiseRate
from setwise.service.services.annotators import AnnotatorReport

GROUPS = "/board/groups"


class NewGroup(GroupRequest):
    """The form that creates a group."""

    group: Annotated[
        str,
        Input(
            "Id", "A short name such as coders: a-z, 0-9, - and _.", pointers=("/path/group_id",)
        ),
    ]


class ChangedGroup(GroupRequest):
    """The form that changes a group."""

    version: Annotated[int, Input(widget="hidden")]
    source_seen: Annotated[
        str,
        Input(
            "Error rates of answers given with the suggestion in view",
            widget="radio",
            choices=(
                (
                    "unknown",
                    "Unknown",
                    "Such answers teach no calibrator that corrects for errors.",
                ),
                SET_BY_HAND,
            ),
        ),
    ] = "unknown"


class Placement(AnnotatorRequest):
    """The form that moves an annotator to a group."""

    annotator: Annotated[str, Input(widget="hidden")]
    version: Annotated[int, Input(widget="hidden")]


def _create(call: Call, form: NewGroup) -> str:
    try:
        call.services.annotators.change_group(call.caller, form.group, form.as_change(), 0)
    except StaleVersion:
        fault = FieldFault("/path/group_id", "exists already; choose another id")
        raise InvalidRequest("The group exists already.", [fault]) from None
    return f"{GROUPS}/{form.group}?done=group-made"


def _change(call: Call, form: ChangedGroup) -> None:
    call.services.annotators.change_group(call.caller, call.id, form.as_change(), form.version)


def _place(call: Call, form: Placement) -> None:
    call.services.annotators.place(call.caller, form.annotator, form.group, form.version)


_ONE = f"{GROUPS}/{{group_id}}"
CREATE = Action(
    GROUPS,
    _create,
    NewGroup,
    ("name", "group"),
    heading="Create a group",
    label="Create",
    notices={"group-made": "The group is created."},
)
CHANGE = Action(
    _ONE,
    _change,
    ChangedGroup,
    (
        "version",
        "name",
        "noise.mode",
        "noise.alpha",
        "noise.beta",
        "source_seen",
        "noise.with_suggestion.alpha",
        "noise.with_suggestion.beta",
    ),
    heading="Settings",
    label="Save changes",
    then=_ONE,
    notices={"group-changed": "Your changes are saved."},
)
PLACE = Action(
    f"{GROUPS}/place",
    _place,
    Placement,
    then=GROUPS,
    notices={"annotator-placed": "Moved. Earlier answers still count for the previous group."},
)


def estimate(rate: NoiseRate, pooled: Sequence[str], group: str) -> str:
    """Return a rate of a group with its interval, in percent, and the groups that it describes.

    >>> rate = NoiseRate(value=0.05, low=0.01, high=0.125, level=0.9, checked=40)
    >>> estimate(rate, ["coders"], "coders")
    '5.0 % (1.0 % to 12.5 %, 40 checked)'
    >>> estimate(rate, ["coders", "nurses"], "coders")
    '5.0 % (1.0 % to 12.5 %, 40 checked) of this group and nurses together'
    """
    others = [each for each in pooled if each != group]
    whose = f" of this group and {', '.join(others)} together" if others else ""
    return f"{_interval(rate)}{whose if rate.checked else ''}"


def _interval(rate: NoiseRate | None) -> str:
    if rate is None or not rate.checked:
        return "unknown"
    value, low, high = map(numerals.percent, (rate.value, rate.low, rate.high))
    few = "only " if rate.checked < FEW else ""
    return f"{value} ({low} to {high}, {few}{rate.checked:,} checked)"


def _pace(report: AnnotatorReport) -> str:
    """Return the pace of the last four weeks.

    >>> from setwise.service.domain.annotators import ReviewPace
    >>> paces = [ReviewPace(n, 31.4) for n in (12, 400)]
    >>> [_pace(AnnotatorReport("x", "Ann", "coders", 1, pace=pace)) for pace in paces]
    ['31 seconds (only 12 decisions)', '31 seconds (400 decisions)']
    """
    if report.pace is None or report.pace.median_seconds is None:
        return "no decisions"
    few = "only " if report.pace.decisions < FEW else ""
    decided = numerals.plural(report.pace.decisions, "decision")
    return f"{numerals.span(report.pace.median_seconds)} ({few}{decided})"


def in_a_line(report: AnnotatorReport) -> str:
    """Return a person's own figures in a line."""
    return (
        f"Your median time for a document in the last four weeks: {_pace(report)}. Right sets "
        f"rejected: {_interval(report.alpha)}. Wrong sets accepted: {_interval(report.beta)}."
    )


def _waiting(report: GroupReport) -> Sequence[tuple[str, object]]:
    if not report.waiting:
        return ()
    return (
        (
            "Contradictions that wait for a lead",
            f"{report.waiting:,}: the intervals allow for whatever leads decide",
        ),
    )


_WITHHELD = "You may not see the figures of other people."


def _state(call: Call) -> SectionState:
    groups = call.services.annotators.groups(call.caller)
    usable = sum(report.usable for report in groups)
    return SectionState(f"{usable:,} of {len(groups):,} with usable error rates.")


# Right sets that are rejected contradict the model, wrong ones that are accepted agree.
_AUDITED = {"alpha": Audited.CONTRADICTED, "beta": Audited.AGREED}


def _rate(report: GroupReport, name: str) -> object:
    """Return a rate of a group: the fixed one, or its estimate."""
    if report.group.fixed:
        return f"{100 * getattr(report.group.fixed, name):.1f} %"
    blind = report.blind
    if blind is None:
        return ui.quiet("unknown")
    behind = documents.address(group=report.group.id, audited=_AUDITED[name])
    return ui.link(behind, estimate(getattr(blind, name), blind.pooled, report.group.id))


def _source(report: GroupReport) -> Markup:
    source = "set by hand" if report.group.fixed else "estimated"
    return ui.joined(
        source, "" if report.usable else ui.joined(" ", ui.badge("not usable yet", "warn"))
    )


def _placing(call: Call, report: AnnotatorReport, groups: Sequence[GroupReport]) -> Markup:
    """Return the form that moves an annotator; without the permission, the group."""
    if not call.caller.may(Permission.ADMINISTER):
        return Markup("{}").format(report.group)
    options = [
        Markup('<option value="{}"{}>{}</option>').format(
            group.group.id,
            Markup(" selected") if group.group.id == report.group else "",
            group.group.name,
        )
        for group in groups
    ]
    return Markup(
        '<form method="post" action="{}/place" class="placing">'
        '<input type="hidden" name="csrf" value="{}">'
        '<input type="hidden" name="annotator" value="{}">'
        '<input type="hidden" name="version" value="{}">'
        '<select name="group" aria-label="Group of {}">{}</select>'
        '<button type="submit" class="second compact">Move<span class="unseen"> {}</span></button>'
        "</form>"
    ).format(
        GROUPS,
        call.visit.csrf,
        report.id,
        report.version,
        report.name or report.id,
        ui.joined(*options),
        report.name or report.id,
    )


class _GroupRow(NamedTuple):
    group: GroupReport
    members: int


_GROUPS: Sequence[ui.Column[_GroupRow]] = (
    ui.Column(
        "Group",
        lambda row: ui.joined(
            ui.link(f"{GROUPS}/{row.group.group.id}", row.group.group.name),
            ui.sub(row.group.group.id),
        ),
        "head",
    ),
    ui.Column("Rates", lambda row: _source(row.group)),
    ui.Column("Right sets rejected", lambda row: _rate(row.group, "alpha")),
    ui.Column("Wrong sets accepted", lambda row: _rate(row.group, "beta")),
    ui.Column("Members", lambda row: row.members, "count"),
)


def _own_rate(report: AnnotatorReport, name: str) -> object:
    """Return a rate of an annotator, with a link to the answers behind it."""
    interval = _interval(getattr(report, name))
    if interval == "unknown":
        return ui.quiet(interval)
    behind = documents.address(reviewer=report.id, audited=_AUDITED[name])
    return ui.link(behind, interval)


def _agreements(report: AnnotatorReport) -> object:
    """Return how many agreements leads read again and contradicted, with a link to all."""
    if report.agreements is None or (rate := report.agreements.rate) is None:
        return ui.quiet("none read again")
    low, high = numerals.percent(rate.low), numerals.percent(rate.high)
    behind = documents.address(reviewer=report.id, audited=Audited.AGREED)
    counts = f"{report.agreements.contradicted:,} of {report.agreements.read_again:,} read again"
    return ui.link(behind, f"{counts} ({low} to {high})")


def _if_shown(figure: Callable[[AnnotatorReport], object]) -> Callable[[AnnotatorReport], object]:
    """Return a figure of a person; None where the caller may not see it."""
    return lambda report: None if report.answers is None else figure(report)


_FIGURES: Sequence[ui.Column[AnnotatorReport]] = (
    ui.Column(
        "Answers",
        _if_shown(lambda report: documents.counted(report.answers or 0, reviewer=report.id)),
        "count",
    ),
    ui.Column(
        "Blind",
        _if_shown(
            lambda report: documents.counted(
                report.blind_answers or 0, reviewer=report.id, audited=Audited.DRAWN
            )
        ),
        "count",
    ),
    ui.Column("Time, four weeks", _if_shown(_pace)),
    ui.Column("Right sets rejected", _if_shown(lambda report: _own_rate(report, "alpha"))),
    ui.Column("Wrong sets accepted", _if_shown(lambda report: _own_rate(report, "beta"))),
    ui.Column("Agreements found wrong", _if_shown(_agreements)),
    ui.Column("Last", _if_shown(lambda report: ui.instant(report.last_answer_at))),
)
"""Of individual people; empty where the caller may not see them."""


def _groups(call: Call) -> ui.View:
    groups = call.services.annotators.groups(call.caller)
    annotators = call.services.annotators.page(call.caller)
    rows = [
        _GroupRow(group, sum(report.group == group.group.id for report in annotators))
        for group in groups
    ]
    columns: Sequence[ui.Column[AnnotatorReport]] = (
        ui.Column(
            "Name",
            lambda report: report.name or "a deleted account",
            "head",
        ),
        *_FIGURES,
        ui.Column("Group", lambda report: _placing(call, report, groups)),
    )
    empty = Markup("No reviewers yet. {} for them.").format(
        ui.link("/board/people", "Create accounts")
    )
    return ui.View(
        "Groups",
        (
            ui.Table("Groups", _GROUPS, rows),
            ui.heading("Annotators"),
            ui.text(
                _WITHHELD
                if any(report.answers is None for report in annotators)
                else "Times are medians from claim to decision; error rates lean towards the "
                "group's. Of agreements with the model, chance decides which ones a lead reads "
                "again: many found wrong tell of an auditor who has stopped looking.",
                "quiet",
            ),
            ui.Table("Annotators", columns, annotators, empty),
            call.form(CREATE),
        ),
        lead="People who make similar errors. Calibrators correct for the error rates of a group; "
        "individuals are not ranked.",
        terms=("calibrator", "checked", "audit"),
    )


def _in_force(report: GroupReport, *, suggestion_shown: bool) -> str:
    """Return the rates that calibrators correct for."""
    fixed, estimated = report.group.fixed, report.estimate
    if suggestion_shown:
        fixed, estimated = report.group.fixed_with_suggestion, None
    if fixed is None and estimated is None:
        return "none, so calibrators that correct for errors leave such answers out"
    how, rates = "set by hand", fixed
    if rates is None and estimated is not None:
        rates, how = Rates(estimated.rates.alpha, estimated.rates.beta), "estimated"
        if len(estimated.pooled) > 1:
            how = f"estimated of {', '.join(estimated.pooled)} together"
    alpha, beta = (f"{100 * round(rate, 4):.10g} %" for rate in rates or ())
    return f"{alpha} of right sets rejected, {beta} of wrong sets accepted, {how}"


def _typed(where: str, rates: Rates | None) -> dict[str, str]:
    """Return rates as they are typed; nothing where they are estimated."""
    named = {} if rates is None else {"alpha": rates.alpha, "beta": rates.beta}
    return {f"{where}.{name}": f"{100 * rate:.10g}" for name, rate in named.items()}


def _group(call: Call) -> ui.View:
    report = call.services.annotators.get_group(call.caller, call.id)
    group, fixed = report.group, report.group.fixed
    fixed_seen = group.fixed_with_suggestion
    blind = report.blind
    pieces: list[ui.Piece] = [
        ui.Facts(
            (
                ("Right sets rejected", estimate(blind.alpha, blind.pooled, group.id)),
                ("Wrong sets accepted", estimate(blind.beta, blind.pooled, group.id)),
                *_waiting(report),
            )
        )
        if blind is not None
        else ui.text("Nothing yet: no lead has decided an audit of this group.", "quiet")
    ]
    if not report.usable_with_suggestion:
        pieces.append(
            ui.text(
                "Calibrators that correct for errors leave out answers given with the suggestion "
                "in view: no error rates that can be corrected for are set for them.",
                "note",
            )
        )
    pieces += [
        ui.text(f"{finding.message[:1].upper()}{finding.message[1:]}.", "note")
        for finding in report.findings
    ]
    return ui.View(
        group.name,
        (
            ui.Facts(
                (
                    ("Id", ui.code(group.id)),
                    ("Rates of blind answers in force", _in_force(report, suggestion_shown=False)),
                    (
                        "Rates with the suggestion in view in force",
                        _in_force(report, suggestion_shown=True),
                    ),
                    ("Changed", ui.instant(group.changed_at, zone=True)),
                )
            ),
            ui.Card("What its answers show", pieces),
            call.form(
                CHANGE,
                version=str(group.version),
                name=group.name,
                source_seen="fixed" if fixed_seen else "unknown",
                **{
                    "noise.mode": "fixed" if fixed else "estimated",
                    **_typed("noise", fixed),
                    **_typed("noise.with_suggestion", fixed_seen),
                },
            ),
        ),
        badge=ui.badge("usable", "good") if report.usable else ui.badge("not usable yet", "warn"),
    )


_NEEDED = (Permission.REPORT, Permission.INSPECT)
PAGES = (
    BoardPage(
        GROUPS,
        _groups,
        (CREATE, PLACE),
        name="Groups",
        meaning="Who makes similar errors, and how often.",
        state=_state,
        needed=_NEEDED,
    ),
    BoardPage(_ONE, _group, (CHANGE,), section=GROUPS, needed=_NEEDED),
)

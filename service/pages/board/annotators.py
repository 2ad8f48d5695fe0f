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
    ERROR_RATES,
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
            fold=ERROR_RATES,
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


def _interval(rate: NoiseRate | None) -> str:
    if rate is None or not rate.checked:
        return "unknown"
    value, low, high = map(numerals.percent, (rate.value, rate.low, rate.high))
    few = "only " if rate.checked < FEW else ""
    return f"{value} ({low} to {high}, {few}{rate.checked:,} checked)"


def _bar(rate: NoiseRate) -> Markup:
    return ui.bar(rate.value, rate.low, rate.high) if rate.checked else Markup("")


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
            f"{report.waiting:,}",
        ),
    )


_WITHHELD = "You may not see the figures of other people."


def _state(call: Call) -> SectionState:
    groups = call.services.annotators.groups(call.caller)
    usable = sum(report.usable for report in groups)
    return SectionState(
        f"Usable error rates: {usable:,} of {numerals.plural(len(groups), 'group')}."
    )


# Right sets that are rejected contradict the model, wrong ones that are accepted agree.
_AUDITED = {"alpha": Audited.CONTRADICTED, "beta": Audited.AGREED}


def _drawn(rate: NoiseRate | None, behind: str) -> object:
    """Return a rate with a bar of its bounds and a link to the answers behind it."""
    if rate is None or not rate.checked:
        return ui.quiet("unknown")
    few = ui.sub("few checks" if rate.checked < FEW else "")
    return ui.joined(ui.link(behind, numerals.percent(rate.value)), _bar(rate), few)


def _rate(report: GroupReport, name: str) -> object:
    """Return a rate of a group: the fixed one, or its estimate."""
    if report.group.fixed:
        share = getattr(report.group.fixed, name)
        return ui.joined(numerals.percent(share), ui.bar(share))
    behind = documents.address(group=report.group.id, audited=_AUDITED[name])
    return _drawn(None if report.blind is None else getattr(report.blind, name), behind)


def _source(report: GroupReport) -> str:
    """Return where the rates of blind answers come from."""
    if report.group.fixed:
        return "set by hand"
    if report.blind is None:
        return ""
    others = ", ".join(each for each in report.blind.pooled if each != report.group.id)
    return f"estimated together with {others}" if others else "estimated"


def _named(report: GroupReport) -> Markup:
    return ui.joined(
        ui.link(f"{GROUPS}/{report.group.id}", report.group.name),
        "" if report.usable else ui.joined(" ", ui.badge("not usable yet", "warn")),
        ui.sub(_source(report)),
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
    ui.Column("Group", lambda row: _named(row.group), "head"),
    ui.Column("Right sets rejected", lambda row: _rate(row.group, "alpha")),
    ui.Column("Wrong sets accepted", lambda row: _rate(row.group, "beta")),
    ui.Column("Members", lambda row: row.members, "count"),
)


def _own_rate(report: AnnotatorReport, name: str) -> object:
    behind = documents.address(reviewer=report.id, audited=_AUDITED[name])
    return _drawn(getattr(report, name), behind)


def _agreements(report: AnnotatorReport) -> object:
    """Return how many agreements leads read again and contradicted, with a link to all."""
    if report.agreements is None or (rate := report.agreements.rate) is None:
        return ui.quiet("none")
    behind = documents.address(reviewer=report.id, audited=Audited.AGREED)
    counts = f"{report.agreements.contradicted:,} of {report.agreements.read_again:,}"
    return ui.joined(ui.link(behind, counts), ui.bar(rate.value, rate.low, rate.high))


def _time(report: AnnotatorReport) -> object:
    if report.pace is None or report.pace.median_seconds is None:
        return None
    return numerals.span(report.pace.median_seconds)


def _if_shown(figure: Callable[[AnnotatorReport], object]) -> Callable[[AnnotatorReport], object]:
    """Return a figure of a person; None where the caller may not see it."""
    return lambda report: None if report.answers is None else figure(report)


_NAME: ui.Column[AnnotatorReport] = ui.Column(
    "Name", lambda report: report.name or "a deleted account", "head"
)
_FIGURES: Sequence[ui.Column[AnnotatorReport]] = (
    ui.Column(
        "Answers",
        _if_shown(lambda report: documents.counted(report.answers or 0, reviewer=report.id)),
        "count",
    ),
    ui.Column("Median time", _if_shown(_time)),
    ui.Column("Right sets rejected", _if_shown(lambda report: _own_rate(report, "alpha"))),
    ui.Column("Wrong sets accepted", _if_shown(lambda report: _own_rate(report, "beta"))),
    ui.Column("Agreements found wrong", _if_shown(_agreements)),
)
"""Of individual people; empty where the caller may not see them."""
_DETAILS: Sequence[ui.Column[AnnotatorReport]] = (
    _NAME,
    ui.Column(
        "Blind answers",
        _if_shown(
            lambda report: documents.counted(
                report.blind_answers or 0, reviewer=report.id, audited=Audited.DRAWN
            )
        ),
        "count",
    ),
    ui.Column("Time, four weeks", _if_shown(_pace)),
    ui.Column("Right sets rejected", _if_shown(lambda report: _interval(report.alpha))),
    ui.Column("Wrong sets accepted", _if_shown(lambda report: _interval(report.beta))),
    ui.Column("Last answer", _if_shown(lambda report: ui.instant(report.last_answer_at))),
)


def _groups(call: Call) -> ui.View:
    groups = call.services.annotators.groups(call.caller)
    annotators = call.services.annotators.page(call.caller)
    rows = [
        _GroupRow(group, sum(report.group == group.group.id for report in annotators))
        for group in groups
    ]
    # None stands for figures that are withheld.
    answering = [report for report in annotators if report.answers != 0]
    others = [report for report in annotators if report.answers == 0]
    placing: ui.Column[AnnotatorReport] = ui.Column(
        "Group", lambda report: _placing(call, report, groups)
    )
    empty = Markup("No reviewers yet. {} for them.").format(
        ui.link("/board/people", "Create accounts")
    )
    withheld = any(report.answers is None for report in annotators)
    parts: list[ui.Piece] = [
        ui.Table("Groups", _GROUPS, rows),
        ui.heading("Annotators"),
        *([ui.text(_WITHHELD, "quiet")] if withheld else []),
        ui.Table(
            "Annotators",
            (_NAME, *_FIGURES, placing),
            answering,
            "No answers yet." if others else empty,
        ),
    ]
    if others:
        table = ui.Table("Without answers", (_NAME, placing), others)
        parts.append(ui.More(f"Without answers ({len(others):,})", [table]))
    if answering:
        table = ui.Table("Bounds and numbers of checks", _DETAILS, answering)
        parts.append(ui.More("Advanced", [ui.text(_MEANING, "hint"), table]))
    parts.append(call.form(CREATE))
    return ui.View(
        "Groups", parts, lead=_state(call).words, terms=("calibrator", "checked", "audit")
    )


_MEANING = (
    "Times are medians from claim to decision in four weeks; error rates of a person lean towards "
    "the group's. Chance decides which agreements with the model a lead reads again: many found "
    "wrong tell of an auditor who has stopped looking. Calibrators correct for the rates of a "
    "group; individuals are not ranked."
)


class _RatesRow(NamedTuple):
    answers: str
    rates: Rates | None
    source: str


_IN_FORCE: Sequence[ui.Column[_RatesRow]] = (
    ui.Column("Answers", lambda row: row.answers, "head"),
    ui.Column("Right sets rejected", lambda row: row.rates and numerals.exactly(row.rates.alpha)),
    ui.Column("Wrong sets accepted", lambda row: row.rates and numerals.exactly(row.rates.beta)),
    ui.Column("From", lambda row: row.source),
)


def _in_force(report: GroupReport) -> Sequence[_RatesRow]:
    """Return the rates that calibrators correct for, of each kind of answers."""
    blind = report.group.fixed
    if blind is None and report.estimate is not None:
        rates = report.estimate.rates
        blind = Rates(round(rates.alpha, 4), round(rates.beta, 4))
    seen = report.group.fixed_with_suggestion
    return (
        _RatesRow("Blind", blind, _source(report)),
        _RatesRow("With the suggestion in view", seen, "" if seen is None else "set by hand"),
    )


def _typed(where: str, rates: Rates | None) -> dict[str, str]:
    """Return rates as they are typed; nothing where they are estimated."""
    named = {} if rates is None else {"alpha": rates.alpha, "beta": rates.beta}
    return {f"{where}.{name}": f"{100 * rate:.10g}" for name, rate in named.items()}


def _group(call: Call) -> ui.View:
    report = call.services.annotators.get_group(call.caller, call.id)
    group, fixed = report.group, report.group.fixed
    fixed_seen = group.fixed_with_suggestion
    blind = report.blind
    notes = [
        ui.text(f"{finding.message[:1].upper()}{finding.message[1:]}.", "note")
        for finding in report.findings
    ]
    if not report.usable_with_suggestion:
        notes.append(
            ui.text(
                "Calibrators that correct for errors leave out answers given with the suggestion "
                "in view: no error rates that can be corrected for are set for them.",
                "note",
            )
        )
    pieces: list[ui.Piece] = [ui.text("No lead has decided an audit of this group yet.", "quiet")]
    if blind is not None:
        rates = (("Right sets rejected", blind.alpha), ("Wrong sets accepted", blind.beta))
        facts = [(name, ui.joined(_interval(rate), _bar(rate))) for name, rate in rates]
        pieces = [ui.Facts((*facts, *_waiting(report)))]
    return ui.View(
        group.name,
        (
            *notes,
            ui.Card(
                "Error rates in force",
                [
                    ui.Table("Rates by kind of answer", _IN_FORCE, _in_force(report)),
                    ui.Facts(
                        (
                            ("Id", ui.code(group.id)),
                            ("Changed", ui.instant(group.changed_at, zone=True)),
                        )
                    ),
                ],
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

"""Read and change annotators, their groups, and the noise rates of groups."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from setwise.service.domain.accounts.callers import PERMISSIONS, Caller, Permission
from setwise.service.domain.annotators import (
    DEFAULT_GROUP,
    Annotator,
    AnnotatorGroup,
    AnswerCounts,
    GroupChange,
    PersonalFigures,
    ReviewPace,
)
from setwise.service.domain.errors import (
    AnnotatorNotFound,
    FieldFault,
    GroupNotFound,
    InvalidRequest,
    StaleVersion,
)
from setwise.service.services.analysis.noise import (
    GroupReport,
    NoiseRate,
    Rereads,
    outside,
    report_noise,
)
from setwise.service.services.audit_trail import Recorded
from setwise.service.stores.database import WallClock
from setwise.service.stores.transaction import Transaction
from setwise.shown import Shown

RECENTLY = timedelta(weeks=4)
"""The time until now that the pace is about, unless another one is asked for."""

_SEE: Mapping[PersonalFigures, tuple[Permission, ...]] = {
    "leads": (Permission.REPORT, Permission.INSPECT),
    "admins": (Permission.INSPECT,),
    "self": (),
}
"""Permissions that show figures of other persons."""


@dataclass(frozen=True)
class AnnotatorReport(Shown):
    """An annotator, their pace and error rates.

    The setting `PERSONAL_FIGURES` decides who sees figures of others; for anyone else they are
    null.
    """

    id: str
    """Of the person or key."""
    name: str | None
    """null for a deleted account."""
    group: str
    version: int
    """0 for an annotator who was never placed in a group."""
    answers: int | None = None
    blind_answers: int | None = None
    """Given without seeing another answer."""
    mean_seconds: float | None = None
    last_answer_at: datetime | None = None
    pace: ReviewPace | None = None
    """Of the last `days`."""
    alpha: NoiseRate | None = None
    """Shrunk towards the group's; null without gold labels. Only for talking with people:
    calibrators use the group's.
    """
    beta: NoiseRate | None = None
    agreements: Rereads | None = None


@dataclass(frozen=True)
class Annotators(Recorded):
    """Annotators, their groups, and the noise rates of both.

    Figures of single persons are left out for callers whom ``personal_figures`` excludes.
    """

    now: WallClock
    personal_figures: PersonalFigures = "leads"

    def page(self, caller: Caller, period: timedelta | None = RECENTLY) -> list[AnnotatorReport]:
        """Return everyone who may review or has reviewed, sorted by name.

        ``period``: The time until now that the pace is about; None leaves the pace out.
        """
        caller.require(Permission.REPORT, Permission.INSPECT)
        with self.begin(read_only=True, snapshot=True) as transaction:
            return self._annotators(transaction, caller, period)

    def get(
        self, caller: Caller, annotator_id: str, period: timedelta = RECENTLY
    ) -> AnnotatorReport:
        """Return an annotator; raises `AnnotatorNotFound`."""
        caller.require(Permission.REPORT, Permission.INSPECT)
        with self.begin(read_only=True, snapshot=True) as transaction:
            return self._found(transaction, caller, annotator_id, period)

    def own(self, caller: Caller) -> AnnotatorReport:
        """Return the caller's own figures."""
        caller.require(Permission.REVIEW)
        with self.begin(read_only=True, snapshot=True) as transaction:
            return self._found(transaction, caller, caller.id)

    def place(
        self, caller: Caller, annotator_id: str, group_id: str, expected_version: int | None
    ) -> AnnotatorReport:
        """Move an annotator to a group; earlier answers stay with the earlier group.

        Raises `AnnotatorNotFound` if no one with this id may review or has reviewed;
        `InvalidRequest` if the group does not exist; `StaleVersion` if the annotator has been moved
        since.

        ``expected_version``: The version that the caller read; None accepts any.
        """
        caller.require(Permission.ADMINISTER)
        with self.begin() as transaction:
            before = self._found(transaction, caller, annotator_id)
            _check_version(before.version, expected_version)
            if transaction.annotators.group(group_id) is None:
                fault = FieldFault("/group", f"{group_id!r} is not a group; create it first")
                raise InvalidRequest("The annotator cannot be put there.", [fault])
            if before.group != group_id or before.version == 0:
                placed = Annotator(annotator_id, group_id, before.version + 1)
                transaction.annotators.place(placed)
                self._note(
                    transaction,
                    caller,
                    "annotator.placed",
                    annotator_id,
                    group=group_id,
                    replaced=before.group,
                )
            return self._found(transaction, caller, annotator_id)

    def groups(self, caller: Caller) -> list[GroupReport]:
        """Return all groups with their noise rates, ordered by id."""
        caller.require(Permission.REPORT, Permission.INSPECT)
        with self.begin(read_only=True, snapshot=True) as transaction:
            return [*report_noise(transaction).groups.values()]

    def get_group(self, caller: Caller, group_id: str) -> GroupReport:
        """Return a group with its noise rates; raises `GroupNotFound`."""
        caller.require(Permission.REPORT, Permission.INSPECT)
        with self.begin(read_only=True, snapshot=True) as transaction:
            report = report_noise(transaction).groups.get(group_id)
        if report is None:
            raise GroupNotFound(f"No group of annotators has the id {group_id!r}.")
        return report

    def change_group(
        self, caller: Caller, group_id: str, change: GroupChange, expected_version: int | None
    ) -> GroupReport:
        """Create a group, or change its name or its noise rates' source.

        Raises `InvalidRequest` if the id, the name or the rates are not valid; `StaleVersion` if
        the group has been changed since.

        ``expected_version``: The version that the caller read; None accepts any.
        """
        caller.require(Permission.ADMINISTER)
        faults = list(change.faults(group_id))
        if faults:
            raise InvalidRequest("The group cannot be stored like this.", faults)
        with self.begin() as transaction:
            before = transaction.annotators.group(group_id)
            version = 0 if before is None else before.version
            _check_version(version, expected_version)
            group = AnnotatorGroup(
                id=group_id,
                name=change.name,
                fixed=change.fixed,
                fixed_with_suggestion=change.fixed_with_suggestion,
                version=version + 1,
                changed_at=self.now(),
                changed_by=caller.id,
            )
            _refuse_contradicted(transaction, group)
            transaction.annotators.save_group(group)
            self._note(
                transaction,
                caller,
                "group.changed" if before else "group.created",
                group_id,
                name=group.name,
                **_shown(group),
            )
            return report_noise(transaction).groups[group_id]

    def _annotators(
        self,
        transaction: Transaction,
        caller: Caller,
        period: timedelta | None,
        *,
        paced: str | None = None,
    ) -> list[AnnotatorReport]:
        """Return everyone, with the figures that the caller may see.

        ``paced``: Whose pace is read; None for everyone's.
        """
        store, noise = transaction.annotators, report_noise(transaction)
        placed, answers, names = store.placed(), store.answers(), _names(transaction)
        pace = store.pace(self.now() - period, paced) if period else {}
        sees_all = caller.may_one(_SEE[self.personal_figures])
        reports = []
        for who in {*names.reviewing, *answers, *placed}:
            annotator = placed.get(who, Annotator(who, DEFAULT_GROUP, 0))
            report = AnnotatorReport(name=names.all.get(who), **vars(annotator))
            if sees_all or who == caller.id:
                counts = answers.get(who, AnswerCounts())
                rates = noise.annotators.get((who, annotator.group))
                report = replace(
                    report,
                    answers=counts.answered,
                    blind_answers=counts.blind,
                    mean_seconds=counts.seconds,
                    last_answer_at=counts.last_at,
                    pace=pace.get(who, ReviewPace()) if period else None,
                    alpha=None if rates is None else NoiseRate.of(rates.alpha),
                    beta=None if rates is None else NoiseRate.of(rates.beta),
                    agreements=noise.agreements.get(who, Rereads()),
                )
            reports.append(report)
        return sorted(reports, key=lambda report: (report.name or "", report.id))

    def _found(
        self,
        transaction: Transaction,
        caller: Caller,
        annotator_id: str,
        period: timedelta = RECENTLY,
    ) -> AnnotatorReport:
        for report in self._annotators(transaction, caller, period, paced=annotator_id):
            if report.id == annotator_id:
                return report
        raise AnnotatorNotFound(
            f"No one who may review, or has reviewed, has the id {annotator_id!r}."
        )


def _refuse_contradicted(transaction: Transaction, group: AnnotatorGroup) -> None:
    """Raise `InvalidRequest` if gold labels contradict rates that are set by hand."""
    report = report_noise(transaction).groups.get(group.id)
    if report is None:
        return
    if group.fixed is not None and (why := outside(group.fixed, report.estimate)) is not None:
        detail = "Gold labels contradict these rates; let them be estimated."
        raise InvalidRequest(detail, [FieldFault("/noise", why)])


def _shown(group: AnnotatorGroup) -> dict[str, object]:
    """Return where a group's noise rates come from, for the audit trail."""
    shown: dict[str, object] = {"noise": "estimated"}
    if group.fixed is not None:
        shown = {"noise": "fixed", **group.fixed._asdict()}
    if group.fixed_with_suggestion is not None:
        shown["with_suggestion"] = group.fixed_with_suggestion._asdict()
    return shown


def _check_version(there: int, expected: int | None) -> None:
    if expected not in {None, there}:
        raise StaleVersion(f"It is at version {there}, not {expected}: read it again.")


@dataclass(frozen=True)
class _Names:
    all: dict[str, str]
    reviewing: frozenset[str]


def _names(transaction: Transaction) -> _Names:
    """Return names of all accounts and keys, and ids that may review."""
    people, keys = transaction.people.all(), transaction.keys.all()
    return _Names(
        {
            **{account.id: account.name for account in people},
            **{account.id: account.name for account in keys},
        },
        frozenset(
            [
                *(
                    account.id
                    for account in people
                    if not account.disabled and Permission.REVIEW in PERMISSIONS[account.role]
                ),
                *(
                    account.id
                    for account in keys
                    if not account.revoked and account.calling().may(Permission.REVIEW)
                ),
            ]
        ),
    )

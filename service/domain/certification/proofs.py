"""What audits prove: which of them count for a certificate, and how its retest reads later ones."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from setwise.service.domain.certification import MOST_PROVING, CommonForm
from setwise.service.domain.evidence import (
    CheckedDocument,
    copies_of,
    each_message,
    one_of_each,
)
from setwise.service.domain.routing.rules import (
    MetadataRule,
    Rule,
    first_broken,
    held_back_alike,
)

COMMON_SHARE, COMMON_AUDITS, MOST_COMMON = 0.005, 5, 10
"""What makes copies a common form: their share and number of the audits; and how many are named."""


class Gathered(NamedTuple):
    """Audits that count, in order of creation, and how many do not, by reason."""

    audits: tuple[CheckedDocument, ...]
    """One of each message. Those that are not finished count as wrong."""
    excluded: Mapping[str, int]
    messages: Sequence[CheckedDocument] = ()
    """One of each message, the too recent ones too."""

    @property
    def in_clusters(self) -> float | None:
        """Share of the audited messages that are copies of another one; None without any."""
        return sum(map(len, self._copied)) / len(self.messages) if self.messages else None

    @property
    def common_forms(self) -> tuple[CommonForm, ...]:
        """The forms that many audited messages follow."""
        n_audits = len(self.messages)
        least = max(COMMON_AUDITS, COMMON_SHARE * n_audits)
        common = sorted(
            (each for each in self._copied if len(each) >= least), key=len, reverse=True
        )
        return tuple(
            CommonForm(
                example=of[0].id,
                share=len(of) / n_audits,
                n_audits=len(of),
                n_good=sum(audit.found_wrong is False for audit in of),
            )
            for of in sorted(common, key=len, reverse=True)[:MOST_COMMON]
        )

    @property
    def _copied(self) -> list[list[CheckedDocument]]:
        return [copies for copies in copies_of(self.messages) if len(copies) > 1]

    @property
    def drawn(self) -> int:
        """Audits of the period that counts, whatever became of them."""
        return len(self.audits)

    @property
    def unfinished(self) -> int:
        """Those that count as wrong because they were not finished in time."""
        return sum(audit.found_wrong is None for audit in self.audits)

    @property
    def undecided(self) -> int:
        """Those that count as wrong because no lead has decided on a contradiction."""
        return sum(audit.contradiction_waits and not audit.held_back for audit in self.audits)

    @property
    def other(self) -> int:
        """Those that other models answered."""
        return sum(not audit.own for audit in self.audits)

    @property
    def held_back(self) -> int:
        """Those that count as wrong because they were held back from audits."""
        return sum(audit.held_back for audit in self.audits)

    @property
    def missed(self) -> int:
        """Those that an auditor agreed with and a second reading has not found right in time."""
        # An agreement that no lead has read again in time may be a missed error.
        return sum(
            audit.agreement_drawn and audit.found_wrong is not False for audit in self._by_chance
        )

    @property
    def known_wrong(self) -> int:
        """Wrong sets among those that leads read whatever the auditor answered."""
        return sum(
            (audit.lead_agrees is not None and audit.found_wrong is True)
            or (audit.found_wrong is None and audit.answered)
            for audit in self._by_chance
        )

    @property
    def _by_chance(self) -> list[CheckedDocument]:
        # These show how many errors auditors miss, because their answer did not select them.
        return [audit for audit in self.audits if audit.drawn_again]

    def first(self, n: int) -> "Gathered":
        """Return the first audits; later ones are left to later looks."""
        later = max(len(self.audits) - n, 0)
        excluded = {**self.excluded, "left to a later look": later}
        return self._replace(audits=self.audits[:n], excluded=excluded)

    def from_confidence(self, floor: float) -> list[CheckedDocument]:
        """Return the audits of sets with at least this confidence."""
        return [audit for audit in self.audits if audit.confidence >= floor]


def gather(
    audits: Sequence[CheckedDocument],
    rules_then: Mapping[str, Sequence[Rule]],
    *,
    rules: Sequence[Rule],
    read_by: datetime,
) -> Gathered:
    """Return the audits that are a simple random sample of the documents.

    The rate may change with time, because documents keep coming as they did: at any moment those
    that are drawn are like the others.

    Rules and segments are often chosen from the errors that audits found. So only audits count that
    were drawn under the same rules and segments: earlier ones had a part in the choice.

    Another model's set decided whether a rule held back what it answered, and whether it was in
    domain. What was held back then, with a draw that would have had it audited, is among the audits
    and counts as wrong; leaving it out would hide what is not known.

    Which audits are finished depends on what they find: wrong sets wait for a lead. So an audit
    is never left out for being unfinished. If one of the last days is unread, or waits to be read
    again, all of those days are left out; an older one counts as wrong until it is finished.

    ``audits``: In order of creation.
    ``rules_then``: Those of each policy version that divides documents as today's does.
    ``rules``: The rules in force.
    ``read_by``: Audits of predictions from before it should be finished by now.
    """
    excluded = {
        "drawn under other segments": 0,
        "drawn under other rules": 0,
        "held back by a rule": 0,
        "not known whether a rule holds it back": 0,
        "too recent": 0,
        "left to set the thresholds": 0,
        "same message again": 0,
    }
    present = held_back_alike(rules)
    alike = {version: held_back_alike(then) == present for version, then in rules_then.items()}
    covered: list[CheckedDocument] = []
    for audit in audits:
        reason = _outside(audit, alike.get(audit.policy_version), rules)
        if reason is None:
            covered.append(audit)
        else:
            excluded[reason] += 1
    chosen = [audit for audit in covered if audit.draw is None or audit.draw < MOST_PROVING]
    excluded["left to set the thresholds"] = len(covered) - len(chosen)
    drawn = messages = each_message(chosen)
    excluded["same message again"] = len(chosen) - len(drawn)
    recent = [audit for audit in drawn if audit.created_at > read_by]
    if any(audit.found_wrong is None for audit in recent):
        excluded["too recent"] = len(recent)
        drawn = [audit for audit in drawn if audit.created_at <= read_by]
    return Gathered(tuple(drawn), excluded, messages)


class Bet(NamedTuple):
    """An audit as the detector of drift reads it: see `models.guarantees.retest`."""

    confidence: float
    right: bool
    stands_for: float


def bets_since(audits: Sequence[CheckedDocument], proof: str, read_by: datetime) -> list[Bet]:
    """Return the audits of documents that came after a certificate, oldest first.

    They are read as the breaker reads them.
    """
    return [
        Bet(audit.confidence, audit.counts_as_right(read_by), audit.stands_for)
        for audit in one_of_each(audits)
        if audit.id > proof
    ]


def _outside(audit: CheckedDocument, alike: bool | None, rules: Sequence[Rule]) -> str | None:
    """Return why an audit is no evidence under these rules; None if it is.

    ``alike``: Whether the rules were the same; None if documents were divided otherwise.
    """
    if alike is None:
        return "drawn under other segments"
    if not alike:
        return "drawn under other rules"
    if audit.own:
        return None
    # The rules let the set through that was answered, not another model's.
    if audit.metadata is None and any(isinstance(rule, MetadataRule) for rule in rules):
        return "not known whether a rule holds it back"
    broken = first_broken(rules, audit.labels, audit.facts)
    return None if broken is None else "held back by a rule"

"""Versions of the policy, each with its gates."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import groupby
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, RowMapping, func, insert, select
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.certification import Scorer
from setwise.service.domain.errors import StaleVersion, StorageUnavailable
from setwise.service.domain.policy import Policy
from setwise.service.domain.routing.audits import AuditMode, AuditPlan
from setwise.service.domain.routing.rules import read_rules
from setwise.service.domain.routing.segments import GateState, SegmentBy
from setwise.service.stores.columns.rows import Store, of_row, row_of
from setwise.service.stores.tables import gates, policies

_NEWEST = select(policies.c.version, policies.c.ordinal).order_by(policies.c.ordinal.desc())
_NEWEST = _NEWEST.limit(1)

_WITH_GATES = (
    select(policies, gates)
    .join(gates, gates.c.policy_version == policies.c.version)
    .order_by(policies.c.version, gates.c.place)
)

_SEEN: WeakKeyDictionary[Engine, Policy] = WeakKeyDictionary()
"""The last known policy in force of each database. A version never changes."""


class PolicyStore(Store):
    """Versions of the policy; the newest is in force."""

    def lock(self) -> None:
        """Lock the policy until this transaction ends.

        Changes of the policy and evaluations of audits take this lock, because two that finish
        at the same time would not see each other.
        """
        # SQLite allows only one writer at a time.
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))

    def current(self) -> Policy:
        # Every prediction calls this, and the policy rarely changes: only its version is read.
        newest = self._connection.execute(_NEWEST).one_or_none()
        if newest is None:
            raise StorageUnavailable("The database holds no policy; run setwise db upgrade.")
        policy = _SEEN[self._connection.engine] = self.get(newest.version)
        return policy

    def get(self, version: str) -> Policy:
        """Return the policy of a version that a stored prediction names."""
        seen = _SEEN.get(self._connection.engine)
        return seen if seen and seen.version == version else self.of([version])[version]

    def of(self, versions: Iterable[str]) -> Mapping[str, Policy]:
        """Return the policies of versions that stored predictions name."""
        query = _WITH_GATES.where(policies.c.version.in_(sorted(set(versions))))
        rows = self._connection.execute(query).mappings()
        return {
            version: _to_policy(list(of_version))
            for version, of_version in groupby(rows, lambda row: row[policies.c.version])
        }

    def add(self, policy: Policy, *, replacing: str) -> None:
        """Store a new version; raises `StaleVersion` unless ``replacing`` is in force."""
        self.lock()
        newest = self._connection.execute(_NEWEST).one_or_none()
        if newest is None or newest.version != replacing:
            raise _stale(replacing)
        try:
            self._connection.execute(
                insert(policies),
                {
                    **row_of(policy, policies),
                    **row_of(policy.audits, policies),
                    "ordinal": newest.ordinal + 1,
                    "audit_mode": policy.audits.mode,
                    "rules": [rule.stored() for rule in policy.rules],
                    "segment_by": asdict(policy.segment_by),
                },
            )
        except IntegrityError as error:
            if "ordinal" in str(error.orig):  # a concurrent transaction replaced the same version
                raise _stale(replacing) from error
            raise
        self._connection.execute(
            insert(gates),
            [_of_state(policy.version, place, state) for place, state in enumerate(policy.states)],
        )


_LOCK = 0x5E7_0B01  # arbitrary, but used for no other lock


def _to_policy(rows: list[RowMapping]) -> Policy:
    row = rows[0]
    return of_row(
        Policy,
        policies,
        row,
        audits=of_row(AuditPlan, policies, row, mode=row[policies.c.audit_mode]),
        rules=read_rules(row[policies.c.rules])[0],
        segment_by=_to_segment_by(row[policies.c.segment_by]),
        states=tuple(map(_to_state, rows)),
    )


def _to_segment_by(stored: dict[str, Any]) -> SegmentBy:  # Any: JSON
    lists = {name: tuple(value) for name, value in stored.items() if isinstance(value, list)}
    return SegmentBy(**{**stored, **lists})


def _to_state(row: RowMapping) -> GateState:
    column, audits = gates.c, row[gates.c.audits]
    return of_row(
        GateState,
        gates,
        row,
        certified_for=None
        if row[column.certificate_id] is None
        else Scorer(row[column.certified_model], row[column.certified_calibrator]),
        audits=audits and AuditPlan(**{**audits, "mode": AuditMode(audits["mode"])}),
        audited_for=None
        if row[column.audited_model] is None
        else Scorer(row[column.audited_model], row[column.audited_calibrator]),
    )


def _of_state(version: str, place: int, state: GateState) -> dict[str, object]:
    model, calibrator = state.certified_for or (None, None)
    audited_model, audited_calibrator = state.audited_for or (None, None)
    return {
        **row_of(state, gates),
        "policy_version": version,
        "place": place,
        "certified_model": model,
        "certified_calibrator": calibrator,
        "audited_model": audited_model,
        "audited_calibrator": audited_calibrator,
        "audits": state.audits and asdict(state.audits),
    }


def _stale(replacing: str) -> StaleVersion:
    return StaleVersion(
        f"Version {replacing} is no longer in force; read the policy again and repeat the change."
    )

"""Versions of the routing policy."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Engine, RowMapping, func, insert, select
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.certification import Scorer
from setwise.service.domain.errors import StaleVersion, StorageUnavailable
from setwise.service.domain.policy import RoutingPolicy
from setwise.service.domain.routing.audits import AuditMode, AuditPlan
from setwise.service.domain.routing.rules import read_rules
from setwise.service.domain.routing.segments import Segmentation, SegmentRule
from setwise.service.stores.columns.rows import Store, of_row, row_of
from setwise.service.stores.tables import policy_segments, routing_policies

_NEWEST = select(routing_policies).order_by(routing_policies.c.ordinal.desc()).limit(1)

_NEWEST_VERSION = _NEWEST.with_only_columns(routing_policies.c.version)

_SEEN: WeakKeyDictionary[Engine, RoutingPolicy] = WeakKeyDictionary()
"""The last known policy in force of each database. A version never changes."""


class PolicyStore(Store):
    """Versions of the routing policy; the newest is in force."""

    def lock(self) -> None:
        """Lock the policy until this transaction ends.

        Changes of the policy and evaluations of audits take this lock, because two that finish
        at the same time would not see each other.
        """
        # SQLite allows only one writer at a time.
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))

    def current(self) -> RoutingPolicy:
        # Every prediction calls this, and the policy rarely changes: only its version is read.
        version = self._connection.execute(_NEWEST_VERSION).scalar_one_or_none()
        if version is None:
            raise StorageUnavailable("The database holds no policy; run setwise db upgrade.")
        engine = self._connection.engine
        policy = _SEEN.get(engine)
        if policy is None or policy.version != version:
            policy = _SEEN[engine] = self.get(version)
        return policy

    def get(self, version: str) -> RoutingPolicy:
        """Return the policy of a version that a stored prediction names."""
        query = select(routing_policies).where(routing_policies.c.version == version)
        row = self._connection.execute(query).mappings().one()
        rules = () if row["segmentation"] is None else self._segments(version)
        return _to_policy(row, rules)

    def of(self, versions: Iterable[str]) -> Mapping[str, RoutingPolicy]:
        """Return the policies of versions that stored predictions name."""
        return {version: self.get(version) for version in sorted(set(versions))}

    def _segments(self, version: str) -> tuple[SegmentRule, ...]:
        query = select(policy_segments).where(policy_segments.c.policy_version == version)
        return tuple(self._every(query.order_by(policy_segments.c.place), _to_rule))

    def add(self, policy: RoutingPolicy, *, replacing: str) -> None:
        """Store a new version; raises `StaleVersion` unless ``replacing`` is in force."""
        self.lock()
        newest = self._connection.execute(_NEWEST).mappings().one_or_none()
        if newest is None or newest["version"] != replacing:
            raise _stale(replacing)
        try:
            self._connection.execute(
                insert(routing_policies),
                {
                    **row_of(policy, routing_policies),
                    **row_of(policy.audits, routing_policies),
                    "ordinal": newest["ordinal"] + 1,
                    "audit_mode": policy.audits.mode,
                    "rules": [rule.declared() for rule in policy.rules],
                    **_scorer_row(policy.certified_for),
                    "segmentation": policy.segmentation and asdict(policy.segmentation),
                },
            )
            if policy.segments:
                self._connection.execute(
                    insert(policy_segments),
                    [
                        _of_rule(policy.version, place, rule)
                        for place, rule in enumerate(policy.segments)
                    ],
                )
        except IntegrityError as error:
            if "ordinal" in str(error.orig):  # a concurrent transaction replaced the same version
                raise _stale(replacing) from error
            raise


_LOCK = 0x5E7_0B01  # arbitrary, but used for no other lock


def _to_policy(row: RowMapping, segments: tuple[SegmentRule, ...]) -> RoutingPolicy:
    return of_row(
        RoutingPolicy,
        routing_policies,
        row,
        audits=of_row(AuditPlan, routing_policies, row, mode=row["audit_mode"]),
        rules=read_rules(row["rules"])[0],
        certified_for=_certified_for(row),
        segmentation=_to_segmentation(row["segmentation"]),
        segments=segments,
    )


def _scorer_row(scorer: Scorer | None) -> dict[str, str | None]:
    model, calibrator = scorer or (None, None)
    return {"certified_model": model, "certified_calibrator": calibrator}


def _certified_for(row: RowMapping) -> Scorer | None:
    if row["certificate_id"] is None:
        return None
    return Scorer(row["certified_model"], row["certified_calibrator"])


def _to_segmentation(stored: dict[str, Any] | None) -> Segmentation | None:  # Any: JSON
    if stored is None:
        return None
    lists = {name: tuple(value) for name, value in stored.items() if isinstance(value, list)}
    return Segmentation(**{**stored, **lists})


def _to_rule(row: RowMapping) -> SegmentRule:
    audits = row["audits"]
    return of_row(
        SegmentRule,
        policy_segments,
        row,
        certified_for=_certified_for(row),
        audits=audits and AuditPlan(**{**audits, "mode": AuditMode(audits["mode"])}),
    )


def _of_rule(version: str, place: int, rule: SegmentRule) -> dict[str, object]:
    return {
        **row_of(rule, policy_segments),
        "policy_version": version,
        "place": place,
        **_scorer_row(rule.certified_for),
        "audits": rule.audits and asdict(rule.audits),
    }


def _stale(replacing: str) -> StaleVersion:
    return StaleVersion(
        f"Version {replacing} is no longer in force; read the policy again and repeat the change."
    )

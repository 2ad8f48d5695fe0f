"""Versions of the routing policy."""

from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, RowMapping, func, insert, select
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.audits import AuditMode, AuditPlan
from setwise.service.domain.certification import Scorer
from setwise.service.domain.errors import StaleVersion, StorageUnavailable
from setwise.service.domain.policy import RoutingPolicy, ThresholdMode
from setwise.service.domain.rules import read_rules
from setwise.service.stores.database import as_sqlalchemy_raises
from setwise.service.stores.tables import routing_policies

_NEWEST = select(routing_policies).order_by(routing_policies.c.ordinal.desc()).limit(1)

NEWEST_VERSION = "SELECT version FROM routing_policies ORDER BY ordinal DESC LIMIT 1"
"""Selects the version of the policy in force."""

_SEEN: WeakKeyDictionary[Engine, RoutingPolicy] = WeakKeyDictionary()
"""The last known policy in force of each database. A version never changes."""


class PolicyStore:
    """Versions of the routing policy; the newest is in force."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lock(self) -> None:
        """Lock the policy until this transaction ends.

        Changes of the policy and evaluations of audits take this lock, because two that finish
        at the same time would not see each other.
        """
        # SQLite allows only one writer at a time.
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))

    def current(self) -> RoutingPolicy:
        # Every prediction calls this, and the policy rarely changes. SQLAlchemy's overhead would
        # dominate, so the statement goes to the driver.
        cursor = self._connection.connection.cursor()
        with as_sqlalchemy_raises(NEWEST_VERSION, self._connection.dialect):
            cursor.execute(NEWEST_VERSION)
            found = cursor.fetchone()
        if found is None:
            raise StorageUnavailable("The database holds no policy; run setwise db upgrade.")
        engine, version = self._connection.engine, str(found[0])
        seen = _SEEN.get(engine)
        if seen is None or seen.version != version:
            seen = _SEEN[engine] = self.get(version)
        return seen

    def get(self, version: str) -> RoutingPolicy:
        """Return the policy of a version that a stored prediction names."""
        query = select(routing_policies).where(routing_policies.c.version == version)
        return _to_policy(self._connection.execute(query).mappings().one())

    def add(self, policy: RoutingPolicy, *, replacing: str) -> None:
        """Store a new version; raises `StaleVersion` unless ``replacing`` is in force."""
        self.lock()
        newest = self._connection.execute(_NEWEST).mappings().one_or_none()
        if newest is None or newest["version"] != replacing:
            raise _stale(replacing)
        scorer = policy.certified_for
        try:
            self._connection.execute(
                insert(routing_policies),
                {
                    "version": policy.version,
                    "ordinal": newest["ordinal"] + 1,
                    "target_accuracy": policy.target_accuracy,
                    "risk": policy.risk,
                    "auto_send": policy.auto_send,
                    "threshold_mode": policy.threshold_mode.value,
                    "threshold": policy.threshold,
                    "created_at": policy.created_at,
                    "created_by": policy.created_by,
                    "confidence_floor": policy.confidence_floor,
                    "certification_rate": policy.audits.certification_rate,
                    "training_rate": policy.audits.training_rate,
                    "audit_mode": policy.audits.mode.value,
                    "overlap_rate": policy.audits.overlap_rate,
                    "gold_reread_rate": policy.audits.gold_reread_rate,
                    "rules": [rule.declared() for rule in policy.rules],
                    "certificate_id": policy.certificate_id,
                    "trip_id": policy.trip_id,
                    "certified_model": scorer.model_version if scorer else None,
                    "certified_calibrator": scorer.calibrator_version if scorer else None,
                },
            )
        except IntegrityError as error:
            if "ordinal" in str(error.orig):  # a concurrent transaction replaced the same version
                raise _stale(replacing) from error
            raise


_LOCK = 0x5E7_0B01  # arbitrary, but used for no other lock


def _to_policy(row: RowMapping) -> RoutingPolicy:
    certificate = row["certificate_id"]
    return RoutingPolicy(
        version=row["version"],
        target_accuracy=row["target_accuracy"],
        risk=row["risk"],
        auto_send=row["auto_send"],
        threshold_mode=ThresholdMode(row["threshold_mode"]),
        threshold=row["threshold"],
        created_at=row["created_at"],
        created_by=row["created_by"],
        confidence_floor=row["confidence_floor"],
        audits=AuditPlan(
            certification_rate=row["certification_rate"],
            training_rate=row["training_rate"],
            mode=AuditMode(row["audit_mode"]),
            overlap_rate=row["overlap_rate"],
            gold_reread_rate=row["gold_reread_rate"],
        ),
        rules=read_rules(row["rules"] or [])[0],
        certificate_id=certificate,
        trip_id=row["trip_id"],
        certified_for=None
        if certificate is None
        else Scorer(row["certified_model"], row["certified_calibrator"]),
    )


def _stale(replacing: str) -> StaleVersion:
    return StaleVersion(
        f"Version {replacing} is no longer in force; read the policy again and repeat the change."
    )

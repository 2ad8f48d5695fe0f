"""Versions of the routing policy."""

from weakref import WeakKeyDictionary

from sqlalchemy import Engine, RowMapping, func, insert, select
from sqlalchemy.exc import IntegrityError

from setwise.service.domain.audits import AuditPlan
from setwise.service.domain.certification import Scorer
from setwise.service.domain.errors import StaleVersion, StorageUnavailable
from setwise.service.domain.policy import RoutingPolicy
from setwise.service.domain.rules import read_rules
from setwise.service.stores.database import as_sqlalchemy_raises
from setwise.service.stores.store import Store, of_row, row_of
from setwise.service.stores.tables import routing_policies

_NEWEST = select(routing_policies).order_by(routing_policies.c.ordinal.desc()).limit(1)

NEWEST_VERSION = "SELECT version FROM routing_policies ORDER BY ordinal DESC LIMIT 1"
"""Selects the version of the policy in force."""

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
                    **row_of(policy, routing_policies),
                    **row_of(policy.audits, routing_policies),
                    "ordinal": newest["ordinal"] + 1,
                    "audit_mode": policy.audits.mode,
                    "rules": [rule.declared() for rule in policy.rules],
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
    return of_row(
        RoutingPolicy,
        routing_policies,
        row,
        audits=of_row(AuditPlan, routing_policies, row, mode=row["audit_mode"]),
        rules=read_rules(row["rules"] or [])[0],
        certified_for=None
        if certificate is None
        else Scorer(row["certified_model"], row["certified_calibrator"]),
    )


def _stale(replacing: str) -> StaleVersion:
    return StaleVersion(
        f"Version {replacing} is no longer in force; read the policy again and repeat the change."
    )

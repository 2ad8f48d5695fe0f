"""A prediction's row holds the event of its making too, which is no longer a row of its own.

Revision: 0018, after 0017
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

ORIGIN = ("actor_name", "request_id", "address")
REFUSAL = "rows of predictions are history: they are never changed or deleted"

DETAIL = (
    "decision",
    "reason",
    "confidence",
    "rule",
    "threshold",
    "model_version",
    "calibrator_version",
    "policy_version",
    "audit_role",
    "draw",
)
TOGETHER = 1_000
"""Events that are written in one statement."""


def upgrade() -> None:
    for name in ORIGIN:
        op.add_column("predictions", sa.Column(name, sa.Text()))
    if op.get_bind().dialect.name == "postgresql":
        action = "EXECUTE FUNCTION setwise_refuse_change()"
    else:
        action = f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
    op.execute(
        f"CREATE TRIGGER predictions_keep_origin BEFORE UPDATE OF {', '.join(ORIGIN)} "
        f"ON predictions FOR EACH ROW {action}"
    )


def downgrade() -> None:
    _write_events()
    place = " ON predictions" if op.get_bind().dialect.name == "postgresql" else ""
    op.execute(f"DROP TRIGGER predictions_keep_origin{place}")
    for name in reversed(ORIGIN):
        op.drop_column("predictions", name)


def _write_events() -> None:
    """Write the events that predictions hold as rows of their own, as the release before does."""
    id_ = sa.String(36).with_variant(postgresql.UUID(as_uuid=False), "postgresql")
    instant = sa.DateTime(timezone=True)
    predictions = sa.table(
        "predictions",
        sa.column("id", id_),
        sa.column("client_id"),
        sa.column("created_at", instant),
        *(sa.column(name) for name in (*ORIGIN, *DETAIL)),
    )
    events = sa.table(
        "audit_events",
        sa.column("id", id_),
        sa.column("at", instant),
        *(sa.column(name) for name in ("actor_id", "action", "subject", *ORIGIN)),
        sa.column("detail", sa.JSON()),
    )
    connection = op.get_bind()
    last: str | None = None
    while True:
        query = sa.select(predictions).where(predictions.c.actor_name.is_not(None))
        if last is not None:
            query = query.where(predictions.c.id > last)
        rows = connection.execute(query.order_by(predictions.c.id).limit(TOGETHER)).mappings().all()
        if not rows:
            return
        connection.execute(sa.insert(events), [_event(row) for row in rows])
        last = rows[-1]["id"]


def _event(row: sa.RowMapping) -> dict[str, object]:
    told = {name: row[name] for name in DETAIL if name != "rule" or row[name] is not None}
    return {
        "id": row["id"],
        "at": row["created_at"],
        "actor_id": row["client_id"],
        "action": "prediction.created",
        "subject": row["id"],
        **{name: row[name] for name in ORIGIN},
        # Ids are UUIDs in some drivers' eyes.
        "detail": {name: str(v) if name == "policy_version" else v for name, v in told.items()},
    }

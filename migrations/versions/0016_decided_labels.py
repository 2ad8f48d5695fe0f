"""Index the labels that were sent last, and contradictions, so that people can search for them.

Triggers keep the index, so that rows of a release that does not know it are found too.

Revision ID: 0016
Revises: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

ID = sa.String(length=36).with_variant(sa.UUID(as_uuid=False), "postgresql")

# An outcome replaces what was sent, and sends nothing by itself.
SENT = """(SELECT 1 FROM predictions WHERE id = NEW.prediction_id AND decision = 'auto')
 OR EXISTS (SELECT 1 FROM annotations WHERE prediction_id = NEW.prediction_id AND settles)"""
TRIGGERS = (
    # Table, condition on the new row, id of its prediction.
    ("predictions", "NEW.decision = 'auto'", "NEW.id"),
    ("annotations", "NEW.settles", "NEW.prediction_id"),
    ("outcomes", f"EXISTS {SENT}", "NEW.prediction_id"),
)
ANSWERS = ("annotations", "outcomes")
EACH_OF = {
    "postgresql": ("json_array_elements_text", "candidates->0->'labels'"),
    "sqlite": ("json_each", "json_extract(candidates, '$[0].labels')"),
}
REPLACE = """
    DELETE FROM final_labels WHERE prediction_id = {prediction};
    INSERT INTO final_labels (label, prediction_id)
    SELECT DISTINCT value, {prediction} FROM {each}({labels});
"""
FILL = """
    INSERT INTO final_labels (label, prediction_id)
    SELECT DISTINCT value, p.id FROM predictions AS p, {each}(COALESCE(
      (SELECT labels FROM (
         SELECT labels, created_at, id FROM annotations WHERE prediction_id = p.id AND settles
         UNION ALL
         SELECT labels, created_at, id FROM outcomes WHERE prediction_id = p.id
           AND (p.decision = 'auto' OR EXISTS (
             SELECT 1 FROM annotations WHERE prediction_id = p.id AND settles))
       ) AS decided ORDER BY created_at DESC, id DESC LIMIT 1),
      CASE WHEN p.decision = 'auto' THEN {first} END))
"""


def upgrade() -> None:
    """Create the indexes and fill them."""
    op.create_table(
        "final_labels",
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("prediction_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("label", "prediction_id", name=op.f("pk_final_labels")),
    )
    op.create_index(op.f("ix_final_labels_prediction_id"), "final_labels", ["prediction_id"])
    each, first = EACH_OF[op.get_bind().dialect.name]
    for table, condition, prediction in TRIGGERS:
        name = f"{table}_index_final"
        predicted = first.replace("candidates", "NEW.candidates")
        labels = predicted if table == "predictions" else "NEW.labels"
        body = REPLACE.format(prediction=prediction, each=each, labels=labels)
        _after_insert(table, name, condition, body)
    op.execute(FILL.format(each=each, first=first))
    for table in ANSWERS:
        name = op.f(f"ix_{table}_contradicted")
        wrong = sa.text("NOT agreed")
        op.create_index(
            name, table, ["prediction_id", "agreed"], sqlite_where=wrong, postgresql_where=wrong
        )


def _after_insert(table: str, name: str, condition: str, body: str) -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute(
            f"CREATE TRIGGER {name} AFTER INSERT ON {table} WHEN {condition} BEGIN {body} END"
        )
        return
    op.execute(
        f"CREATE FUNCTION setwise_{name}() RETURNS trigger LANGUAGE plpgsql AS $$"
        f" BEGIN IF {condition} THEN {body} END IF; RETURN NULL; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {name} AFTER INSERT ON {table}"
        f" FOR EACH ROW EXECUTE FUNCTION setwise_{name}()"
    )


def downgrade() -> None:
    """Drop the indexes."""
    for table in ANSWERS:
        op.drop_index(op.f(f"ix_{table}_contradicted"), table)
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    for table, *_ in TRIGGERS:
        name = f"{table}_index_final"
        op.execute(f"DROP TRIGGER {name}" + (f" ON {table}" if on_postgresql else ""))
        if on_postgresql:
            op.execute(f"DROP FUNCTION setwise_{name}")
    op.drop_table("final_labels")

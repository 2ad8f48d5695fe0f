"""Index labels and words of documents, so that people can search for them.

Triggers fill the index, so that rows of a release that does not know it are found too. Encrypted
texts are not in it, and a purged text leaves it.

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

ID = sa.String(length=36).with_variant(sa.UUID(as_uuid=False), "postgresql")

# PostgreSQL refuses a row whose index entry is too long; no text of this length is.
WORDS = "to_tsvector('simple', left(text, 100000))"

ON_POSTGRESQL = (
    """
    CREATE FUNCTION setwise_index_labels() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO prediction_labels (label, prediction_id)
      SELECT DISTINCT value, NEW.id FROM json_array_elements_text(NEW.candidates->0->'labels');
      RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER predictions_index_labels AFTER INSERT ON predictions
    FOR EACH ROW EXECUTE FUNCTION setwise_index_labels()
    """,
    """
    INSERT INTO prediction_labels (label, prediction_id)
    SELECT DISTINCT value, id FROM predictions, json_array_elements_text(candidates->0->'labels')
    """,
    f"""
    CREATE INDEX searched_words ON predictions USING gin ({WORDS})
    WHERE text IS NOT NULL AND NOT starts_with(text, 'sw1:')
    """,
)

ON_SQLITE = (
    """
    CREATE TRIGGER predictions_index_labels AFTER INSERT ON predictions BEGIN
      INSERT INTO prediction_labels (label, prediction_id)
      SELECT DISTINCT value, NEW.id FROM json_each(NEW.candidates, '$[0].labels');
    END
    """,
    """
    INSERT INTO prediction_labels (label, prediction_id)
    SELECT DISTINCT value, predictions.id FROM predictions, json_each(candidates, '$[0].labels')
    """,
    """
    CREATE TABLE searched_places (
      place INTEGER NOT NULL PRIMARY KEY, prediction_id VARCHAR(36) NOT NULL UNIQUE
    )
    """,
    "CREATE VIRTUAL TABLE searched_words USING fts5 (text, content = '')",
    """
    CREATE TRIGGER predictions_index_words AFTER INSERT ON predictions
    WHEN NEW.text IS NOT NULL AND substr(NEW.text, 1, 4) <> 'sw1:' BEGIN
      INSERT INTO searched_places (prediction_id) VALUES (NEW.id);
      INSERT INTO searched_words (rowid, text)
      SELECT place, NEW.text FROM searched_places WHERE prediction_id = NEW.id;
    END
    """,
    """
    CREATE TRIGGER predictions_forget_words AFTER UPDATE OF text ON predictions BEGIN
      INSERT INTO searched_words (searched_words, rowid, text)
      SELECT 'delete', place, OLD.text FROM searched_places WHERE prediction_id = OLD.id;
      DELETE FROM searched_places WHERE prediction_id = OLD.id;
    END
    """,
    """
    INSERT INTO searched_places (prediction_id) SELECT id FROM predictions
    WHERE text IS NOT NULL AND substr(text, 1, 4) <> 'sw1:'
    """,
    """
    INSERT INTO searched_words (rowid, text)
    SELECT place, text FROM searched_places JOIN predictions ON predictions.id = prediction_id
    """,
)


def upgrade() -> None:
    """Create the index and fill it."""
    op.create_table(
        "prediction_labels",
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("prediction_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("label", "prediction_id", name=op.f("pk_prediction_labels")),
    )
    op.create_index(op.f("ix_predictions_confidence_id"), "predictions", ["confidence", "id"])
    op.create_index(op.f("ix_outbox_messages_document_key"), "outbox_messages", ["document_key"])
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    for statement in ON_POSTGRESQL if on_postgresql else ON_SQLITE:
        op.execute(statement)


def downgrade() -> None:
    """Drop the index."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP INDEX searched_words")
        op.execute("DROP TRIGGER predictions_index_labels ON predictions")
        op.execute("DROP FUNCTION setwise_index_labels")
    else:
        for trigger in ("index_labels", "index_words", "forget_words"):
            op.execute(f"DROP TRIGGER predictions_{trigger}")
        op.execute("DROP TABLE searched_words")
        op.execute("DROP TABLE searched_places")
    op.drop_index(op.f("ix_outbox_messages_document_key"), "outbox_messages")
    op.drop_index(op.f("ix_predictions_confidence_id"), "predictions")
    op.drop_table("prediction_labels")

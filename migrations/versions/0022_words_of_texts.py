"""Keep the words of texts on PostgreSQL, which would parse every text it looks at again.

SQLite keeps them since 0012. Encrypted texts have no words here, and a purged text loses them.

Revision ID: 0022
Revises: 0021
"""

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

# PostgreSQL refuses a row whose index entry is too long; no text of this length is.
WORDS = "to_tsvector('simple', left({}text, 100000))"
PLAIN = "{0}text IS NOT NULL AND NOT starts_with({0}text, 'sw1:')"

UP = (
    """
    CREATE TABLE searched_texts (
      prediction_id UUID NOT NULL CONSTRAINT pk_searched_texts PRIMARY KEY, words TSVECTOR NOT NULL
    )
    """,
    f"""
    CREATE FUNCTION setwise_index_words() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      DELETE FROM searched_texts WHERE prediction_id = NEW.id;
      IF {PLAIN.format("NEW.")} THEN
        INSERT INTO searched_texts VALUES (NEW.id, {WORDS.format("NEW.")});
      END IF;
      RETURN NULL;
    END $$
    """,  # noqa: S608 -- constants of this file
    """
    CREATE TRIGGER predictions_index_words AFTER INSERT OR UPDATE OF text ON predictions
    FOR EACH ROW EXECUTE FUNCTION setwise_index_words()
    """,
    f"""
    INSERT INTO searched_texts
    SELECT id, {WORDS.format("")} FROM predictions WHERE {PLAIN.format("")} ORDER BY id
    """,  # noqa: S608 -- as above
    "CREATE INDEX ix_searched_texts_words ON searched_texts USING gin (words)",
    "DROP INDEX searched_words",
    # The table is new: without this, the first searches are planned without knowing it.
    "ANALYZE searched_texts",
)
DOWN = (
    "DROP TRIGGER predictions_index_words ON predictions",
    "DROP FUNCTION setwise_index_words",
    "DROP TABLE searched_texts",
    f"""
    CREATE INDEX searched_words ON predictions USING gin ({WORDS.format("")})
    WHERE {PLAIN.format("")}
    """,
)


def upgrade() -> None:
    """Create the table and fill it."""
    _run(UP)


def downgrade() -> None:
    """Restore the index."""
    _run(DOWN)


def _run(statements: tuple[str, ...]) -> None:
    if op.get_bind().dialect.name == "postgresql":
        for statement in statements:
            op.execute(statement)

"""Groups of annotators with their noise rates, and the group of each answer.

Revision: 0015, after 0014
"""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

INSTANT = sa.DateTime(timezone=True)
REFUSED = "rows of annotations are history: they are never changed or deleted"


def upgrade() -> None:
    groups = op.create_table(
        "annotator_groups",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("alpha", sa.Double()),
        sa.Column("beta", sa.Double()),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("changed_at", INSTANT, nullable=False),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "(alpha IS NULL) = (beta IS NULL)", name=op.f("ck_annotator_groups_both_rates")
        ),
        sa.CheckConstraint(
            "alpha >= 0 AND beta >= 0 AND alpha + beta < 1",
            name=op.f("ck_annotator_groups_answers_tell"),
        ),
        sa.CheckConstraint("version >= 1", name=op.f("ck_annotator_groups_version_counts")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_annotator_groups")),
    )
    op.create_table(
        "annotators",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("group", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint("version >= 1", name=op.f("ck_annotators_version_counts")),
        sa.ForeignKeyConstraint(
            ["group"], ["annotator_groups.id"], name=op.f("fk_annotators_group")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_annotators")),
    )
    op.bulk_insert(
        groups,
        [
            {
                "id": "default",
                "name": "Everybody",
                "version": 1,
                "changed_at": datetime.now(UTC),
                "changed_by": "system",
            }
        ],
    )
    _drop_trigger()
    op.add_column(
        "annotations", sa.Column("group", sa.Text(), nullable=False, server_default="default")
    )
    op.add_column("annotations", sa.Column("version", sa.Integer()))
    _keep_rows()


def downgrade() -> None:
    _drop_trigger()
    op.drop_column("annotations", "version")
    op.drop_column("annotations", "group")
    _keep_rows()
    op.drop_table("annotators")
    op.drop_table("annotator_groups")


def _postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"


def _drop_trigger() -> None:
    place = " ON annotations" if _postgres() else ""
    op.execute(f"DROP TRIGGER annotations_keep_rows{place}")


def _keep_rows() -> None:
    """Make every column history but the comment, which revision 0010 keeps by itself."""
    columns = [column["name"] for column in sa.inspect(op.get_bind()).get_columns("annotations")]
    fixed = ", ".join(f'"{name}"' for name in columns if name != "comment")
    if _postgres():
        action = "EXECUTE FUNCTION setwise_refuse_change()"
    else:
        action = f"BEGIN SELECT RAISE(ABORT, '{REFUSED}'); END"
    op.execute(
        f"CREATE TRIGGER annotations_keep_rows BEFORE UPDATE OF {fixed} ON annotations "
        f"FOR EACH ROW {action}"
    )

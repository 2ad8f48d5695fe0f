"""What documents are searched by, written with the facts that it follows from."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import TextClause, text

from setwise.service.stores.columns.rows import Store
from setwise.service.stores.columns.types import cipher_of


class SearchIndex(Store):
    """The predicted labels, the labels that were sent last, and the words of plain texts."""

    def add(self, predicted: Mapping[str, Sequence[str]], sent: Iterable[str]) -> None:
        """Index new predictions by their labels and words.

        ``predicted``: Labels by id.
        ``sent``: Ids of those that were sent.
        """
        self._insert("prediction_labels", predicted)
        self._insert("final_labels", {id_: predicted[id_] for id_ in sent})
        if cipher_of(self._connection.dialect) is None:
            self._run(_ADD_WORDS, predicted)

    def set_final(self, labels: Mapping[str, Sequence[str]], *, sent: bool) -> None:
        """Store the labels that were sent last, by the ids of predictions.

        ``sent``: Whether others may have been sent before.
        """
        if sent:
            self._run(_FORGET_FINAL, labels)
        self._insert("final_labels", labels)

    def forget_words(self, prediction_ids: Iterable[str]) -> None:
        """Remove words of texts, which are still stored."""
        self._run(_FORGET_WORDS, prediction_ids)

    def compact(self) -> None:
        """Rewrite SQLite's index of words, which keeps forgotten words until then."""
        if self._connection.dialect.name == "sqlite":
            self._connection.execute(_COMPACT)

    def _insert(self, table: str, labels_of: Mapping[str, Sequence[str]]) -> None:
        rows = [
            {"label": label, "id": id_}
            for id_, labels in labels_of.items()
            for label in dict.fromkeys(labels)
        ]
        if not rows:
            return
        insert = _INSERT[self._connection.dialect.name, table]
        if self._connection.dialect.name == "postgresql":
            columns = {"labels": [row["label"] for row in rows], "ids": [row["id"] for row in rows]}
            self._connection.execute(insert, columns)
        else:
            self._connection.execute(insert, rows)

    def _run(self, statements: "_Statements", prediction_ids: Iterable[str]) -> None:
        """Run statements about predictions: at once on PostgreSQL, one by one on SQLite."""
        ids = list(prediction_ids)
        for statement in statements[self._connection.dialect.name]:
            if self._connection.dialect.name == "postgresql":
                self._connection.execute(statement, {"ids": ids})
            elif ids:
                self._connection.execute(statement, [{"id": id_} for id_ in ids])


_Statements = Mapping[str, Sequence[TextClause]]
"""For each database."""

_INSERT = {
    ("sqlite", "prediction_labels"): text("INSERT INTO prediction_labels VALUES (:label, :id)"),
    ("sqlite", "final_labels"): text("INSERT INTO final_labels VALUES (:label, :id)"),
    ("postgresql", "prediction_labels"): text(
        "INSERT INTO prediction_labels"
        " SELECT unnest(CAST(:labels AS text[])), unnest(CAST(:ids AS uuid[]))"
    ),
    ("postgresql", "final_labels"): text(
        "INSERT INTO final_labels"
        " SELECT unnest(CAST(:labels AS text[])), unnest(CAST(:ids AS uuid[]))"
    ),
}
_FORGET_FINAL: _Statements = {
    "sqlite": [text("DELETE FROM final_labels WHERE prediction_id = :id")],
    "postgresql": [
        text("DELETE FROM final_labels WHERE prediction_id = ANY(CAST(:ids AS uuid[]))")
    ],
}
_ADD_WORDS: _Statements = {
    "sqlite": [
        text(
            "INSERT INTO searched_places (prediction_id)"
            " SELECT id FROM predictions WHERE id = :id AND text IS NOT NULL"
        ),
        text(
            "INSERT INTO searched_words (rowid, text) SELECT place, text"
            " FROM searched_places JOIN predictions ON id = prediction_id WHERE id = :id"
        ),
    ],
    # PostgreSQL refuses a row whose index entry is too long; no text of this length is.
    "postgresql": [
        text(
            "INSERT INTO searched_texts SELECT id, to_tsvector('simple', left(text, 100000))"
            " FROM predictions WHERE id = ANY(CAST(:ids AS uuid[])) AND text IS NOT NULL"
        )
    ],
}
_FORGET_WORDS: _Statements = {
    # An index without content needs the text that it shall forget.
    "sqlite": [
        text(
            "INSERT INTO searched_words (searched_words, rowid, text) SELECT 'delete', place, text"
            " FROM searched_places JOIN predictions ON id = prediction_id WHERE id = :id"
        ),
        text("DELETE FROM searched_places WHERE prediction_id = :id"),
    ],
    "postgresql": [
        text("DELETE FROM searched_texts WHERE prediction_id = ANY(CAST(:ids AS uuid[]))")
    ],
}
_COMPACT = text("INSERT INTO searched_words (searched_words) VALUES ('optimize')")

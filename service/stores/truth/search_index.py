"""What documents are searched by, written with the facts that it follows from."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import Table, TextClause, insert, select, text

from setwise.service.stores.columns.rows import Store
from setwise.service.stores.columns.types import cipher_of
from setwise.service.stores.tables import final_labels, prediction_labels, unindexed_texts


class SearchIndex(Store):
    """The predicted labels, the labels that were sent last, and the words of plain texts."""

    def add(
        self,
        predicted: Mapping[str, Sequence[str]],
        *,
        sent: Iterable[str],
        with_texts: Iterable[str],
    ) -> None:
        """Index new predictions by their labels; their words are indexed later.

        ``predicted``: Labels by id.
        ``sent``: Ids of those that were sent.
        ``with_texts``: Ids of those whose documents have texts.
        """
        self._insert(prediction_labels, predicted)
        self._insert(final_labels, {id_: predicted[id_] for id_ in sent})
        waiting = [{"prediction_id": id_} for id_ in with_texts]
        if waiting and cipher_of(self._connection.dialect) is None:
            self._connection.execute(_ADD_WAITING, waiting)

    def waits(self) -> bool:
        """Return whether texts wait for their words to be indexed."""
        return self._connection.execute(_WAITING.limit(1)).first() is not None

    def add_words(self, most: int) -> int:
        """Index the words of up to ``most`` texts that wait for it; return their number."""
        # Locked: an erasure of one of them waits until its words can be found and erased too.
        locked = _WAITING.limit(most).with_for_update(skip_locked=True)
        ids = self._connection.scalars(locked).all()
        self._run(_ADD_WORDS, ids)
        self._run(_FORGET_WAITING, ids)
        return len(ids)

    def set_final(self, labels: Mapping[str, Sequence[str]], *, sent: bool) -> None:
        """Store the labels that were sent last, by the ids of predictions.

        ``sent``: Whether others may have been sent before.
        """
        if sent:
            self._run(_FORGET_FINAL, labels)
        self._insert(final_labels, labels)

    def forget_words(self, prediction_ids: Iterable[str]) -> None:
        """Remove words of texts, which are still stored."""
        ids = list(prediction_ids)
        self._run(_FORGET_WAITING, ids)  # first, to wait for a process that indexes them now
        self._run(_FORGET_WORDS, ids)

    def compact(self) -> None:
        """Rewrite SQLite's index of words, which keeps forgotten words until then."""
        if self._connection.dialect.name == "sqlite":
            self._connection.execute(_COMPACT)

    def _insert(self, table: Table, labels_of: Mapping[str, Sequence[str]]) -> None:
        rows = [
            {"label": label, "prediction_id": id_}
            for id_, labels in labels_of.items()
            for label in dict.fromkeys(labels)
        ]
        if rows:
            self._connection.execute(_INSERT[table], rows)

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

_INSERT = {table: insert(table) for table in (prediction_labels, final_labels)}
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
_ADD_WAITING = insert(unindexed_texts)
_WAITING = select(unindexed_texts.c.prediction_id).order_by(unindexed_texts.c.prediction_id)
_FORGET_WAITING: _Statements = {
    "sqlite": [text("DELETE FROM unindexed_texts WHERE prediction_id = :id")],
    "postgresql": [
        text("DELETE FROM unindexed_texts WHERE prediction_id = ANY(CAST(:ids AS uuid[]))")
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

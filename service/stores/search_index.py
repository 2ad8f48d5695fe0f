"""What documents are searched by, written with the facts that it follows from."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    Label,
    Select,
    Table,
    Text,
    delete,
    func,
    insert,
    literal_column,
    select,
    text,
)

from setwise.service.stores.columns.rows import Store
from setwise.service.stores.columns.types import cipher_of
from setwise.service.stores.tables import (
    final_labels,
    prediction_labels,
    predictions,
    searched_places,
    searched_texts,
    searched_words,
)

_LONGEST = 100_000
"""Characters of a text that are indexed on PostgreSQL, which bounds an entry of its index."""


class SearchIndex(Store):
    """The predicted labels, the labels that were sent last, and the words of plain texts."""

    def add(self, predicted: Mapping[str, Sequence[str]], sent: Iterable[str]) -> None:
        """Index new predictions by their labels and words.

        ``predicted``: Labels by id.
        ``sent``: Ids of those that were sent.
        """
        self._insert(prediction_labels, predicted)
        self._insert(final_labels, {id_: predicted[id_] for id_ in sent})
        if cipher_of(self._connection.dialect) is None:
            self._add_words(predicted)

    def replace_final(self, sent: Mapping[str, Sequence[str]]) -> None:
        """Replace the labels that were sent last, by the ids of predictions."""
        self._connection.execute(
            delete(final_labels).where(final_labels.c.prediction_id.in_(list(sent)))
        )
        self._insert(final_labels, sent)

    def forget_words(self, prediction_ids: Sequence[str]) -> None:
        """Remove words of texts, which are still stored."""
        if self._connection.dialect.name == "postgresql":
            indexed = searched_texts.c.prediction_id.in_(prediction_ids)
            self._connection.execute(delete(searched_texts).where(indexed))
            return
        # An index without content needs the text that it shall forget.
        command = literal_column("'delete'", Text).label("command")
        self._connection.execute(
            insert(searched_words).from_select(
                ["searched_words", "rowid", "text"], _placed(prediction_ids, command)
            )
        )
        indexed = searched_places.c.prediction_id.in_(prediction_ids)
        self._connection.execute(delete(searched_places).where(indexed))

    def compact(self) -> None:
        """Rewrite SQLite's index of words, which keeps forgotten words until then."""
        if self._connection.dialect.name == "sqlite":
            self._connection.execute(
                text("INSERT INTO searched_words (searched_words) VALUES ('optimize')")
            )

    def _insert(self, table: Table, labels_of: Mapping[str, Sequence[str]]) -> None:
        rows = [
            {"label": label, "prediction_id": prediction_id}
            for prediction_id, labels in labels_of.items()
            for label in dict.fromkeys(labels)
        ]
        if rows:
            self._connection.execute(insert(table), rows)

    def _add_words(self, prediction_ids: Iterable[str]) -> None:
        ids = list(prediction_ids)
        written = predictions.c.id.in_(ids), predictions.c.text.is_not(None)
        if self._connection.dialect.name == "postgresql":
            words = func.to_tsvector(
                literal_column("'simple'"), func.left(predictions.c.text, _LONGEST)
            )
            self._connection.execute(
                insert(searched_texts).from_select(
                    ["prediction_id", "words"], select(predictions.c.id, words).where(*written)
                )
            )
            return
        self._connection.execute(
            insert(searched_places).from_select(
                ["prediction_id"], select(predictions.c.id).where(*written)
            )
        )
        self._connection.execute(
            insert(searched_words).from_select(["rowid", "text"], _placed(ids))
        )


def _placed(ids: Sequence[str], *before: Label[str]) -> Select[Any]:
    """Select the places of texts in SQLite's index, and the texts."""
    placed = searched_places.c.prediction_id == predictions.c.id, predictions.c.id.in_(ids)
    return select(*before, searched_places.c.place, predictions.c.text).where(*placed)  # type: ignore[return-value] # of any width

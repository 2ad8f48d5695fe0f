"""What documents are searched by, written with the facts that it follows from."""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import (
    ColumnElement,
    Table,
    TextClause,
    cast,
    func,
    insert,
    literal_column,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import TSQUERY

from setwise.characters import searched_form
from setwise.service.stores.columns.rows import Store
from setwise.service.stores.columns.types import cipher_of, opened
from setwise.service.stores.tables import (
    final_labels,
    prediction_labels,
    predictions,
    searched_places,
    searched_texts,
    searched_words,
    unindexed_texts,
)


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
        if texts := self._texts(ids):
            for statement in _ADD_WORDS[self._connection.dialect.name]:
                self._connection.execute(statement, texts)
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
        if self._connection.dialect.name == "postgresql":
            self._connection.execute(_FORGET_TEXTS, {"ids": ids})
        elif texts := self._texts(ids):  # an index without content needs what it shall forget
            for statement in _FORGET_WORDS:
                self._connection.execute(statement, texts)

    def compact(self) -> None:
        """Rewrite SQLite's index of words, which keeps forgotten words until then."""
        if self._connection.dialect.name == "sqlite":
            self._connection.execute(_COMPACT)

    def having(self, phrases: Iterable[str]) -> ColumnElement[bool]:
        """Return whether the searched form of a prediction's text holds all phrases."""
        if self._connection.dialect.name == "postgresql":
            matches = (
                searched_texts.c.trigrams.bool_op("@@")(cast(_query_text(phrase), TSQUERY))
                & (func.strpos(searched_texts.c.form, phrase) > 0)
                for phrase in phrases
            )
            return predictions.c.id.in_(select(searched_texts.c.prediction_id).where(*matches))
        places = select(searched_words.c.rowid).where(
            literal_column("searched_words").match(" ".join(map(_match_text, phrases)))
        )
        named = select(searched_places.c.prediction_id).where(searched_places.c.place.in_(places))
        return predictions.c.id.in_(named)

    def _texts(self, ids: Sequence[str]) -> Sequence[Mapping[str, object]]:
        """Return the texts of predictions, as their statements take them."""
        column = predictions.c
        rows = self._connection.execute(
            select(column.id, column.text).where(column.id.in_(ids), column.text.is_not(None))
        )
        texts = {row.id: opened(row.text, row.id, otherwise="")[:_LONGEST] for row in rows}
        forms = {id_: searched_form(text)[:_LONGEST] for id_, text in texts.items()}
        if self._connection.dialect.name == "postgresql":
            return [
                {"id": id_, "trigrams": [*dict.fromkeys(trigrams(form))], "form": form}
                for id_, form in forms.items()
            ]
        return [{"id": id_, "trigrams": " ".join(trigrams(form))} for id_, form in forms.items()]

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


_LONGEST = 80_000
"""Characters of a text that are searched: their trigrams fit into a value of PostgreSQL, which
holds a megabyte, in any script."""


def trigrams(form: str) -> list[str]:
    """Return each three neighbouring characters of a form, and how its end begins.

    Any part of the form is a row of them; one of two characters or one begins one of them.

    >>> trigrams(" fever ")
    ['|fe', 'fev', 'eve', 'ver', 'er|', 'r|', '|']
    """
    plain = form.replace(" ", "|")
    return [plain[start : start + 3] for start in range(len(plain))]


def _parts(phrase: str) -> list[str]:
    """Return the trigrams of a phrase, itself if it is shorter."""
    return trigrams(phrase)[:-2] or [phrase.replace(" ", "|")]


def _match_text(phrase: str) -> str:
    """Return the query of FTS5 for a phrase; no word holds a quote."""
    return f'"{" ".join(_parts(phrase))}"{"*" if len(phrase) < _WHOLE else ""}'


def _query_text(phrase: str) -> str:
    """Return the query of PostgreSQL for a phrase; no word holds a quote or a backslash."""
    begins = ":*" if len(phrase) < _WHOLE else ""
    return " & ".join(f"'{part}'{begins}" for part in dict.fromkeys(_parts(phrase)))


_WHOLE = 3
"""Characters of a trigram."""

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
        text("INSERT INTO searched_places (prediction_id) VALUES (:id)"),
        text(
            "INSERT INTO searched_words (rowid, trigrams)"
            " SELECT place, :trigrams FROM searched_places WHERE prediction_id = :id"
        ),
    ],
    "postgresql": [
        text(
            "INSERT INTO searched_texts (prediction_id, trigrams, form) VALUES"
            " (CAST(:id AS uuid), array_to_tsvector(CAST(:trigrams AS text[])), :form)"
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
_FORGET_WORDS = (
    text(
        "INSERT INTO searched_words (searched_words, rowid, trigrams)"
        " SELECT 'delete', place, :trigrams FROM searched_places WHERE prediction_id = :id"
    ),
    text("DELETE FROM searched_places WHERE prediction_id = :id"),
)
_FORGET_TEXTS = text("DELETE FROM searched_texts WHERE prediction_id = ANY(CAST(:ids AS uuid[]))")
_COMPACT = text("INSERT INTO searched_words (searched_words) VALUES ('optimize')")

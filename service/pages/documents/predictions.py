"""A prediction as people read it: why, the text with its evidence, and the label sets."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from markupsafe import Markup

from setwise.characters import placed_words
from setwise.models.figures.numerals import confidence, plural
from setwise.service.domain.predictions import (
    Candidate,
    Decision,
    Document,
    Prediction,
    Priority,
    Reason,
    TermWeight,
)
from setwise.service.pages.board import parts as ui

MOST_WORDS = 3
"""Words marked for each label, the most important ones."""
MOST_EVIDENCE = 6
"""Words listed for and against each label."""
STRONG, MODERATE = 1.0, 0.3
"""Least weights: nearly triple the odds, and a third more."""
MOST_SHOWN = 20
"""Labels or label sets of another model that are shown."""
MOST_SETS = 5
"""Label sets shown at once; the others unfold."""


def name_of(prediction: Prediction) -> str:
    """Return what a document is called in a list."""
    return prediction.document.id or f"…{prediction.id[-12:]}"


NO_NAME = "a label that is in no list"
"""Stands for `UNNAMED`."""


def labels_of(labels: Sequence[str] | None, *, absent: str = "not sent") -> Markup:
    """Return a label set as people read it, or what its absence means."""
    if labels is None:
        return ui.quiet(absent)
    if not labels:
        return ui.quiet("no labels")
    named = (Markup('<span class="label">{}</span> ').format(label or NO_NAME) for label in labels)
    return ui.joined(*named)


def why(prediction: Prediction) -> str:
    """Return in one sentence why a document was routed as it was."""
    if prediction.reason is Reason.NO_MODEL:
        return "Sent to review, because there was no model yet."
    at, least = confidence(prediction.scored.best.confidence), prediction.threshold
    if prediction.reason is Reason.AUDIT and prediction.decision is Decision.AUTO:
        return f"Sent automatically at a confidence of {at}, and drawn for an audit."
    sentences = {
        Reason.ABOVE_THRESHOLD: f"Sent automatically: its confidence, {at}, reaches the threshold"
        + (f" of {confidence(least)}." if least is not None else "."),
        Reason.BELOW_THRESHOLD: f"Sent to review: its confidence, {at}, is below the threshold"
        + (f" of {confidence(least)}." if least is not None else "."),
        Reason.AUDIT: f"Drawn for an audit before it is sent; its confidence is {at}.",
        Reason.NO_THRESHOLD: "Sent to review, because the model's confidence was not calibrated."
        if prediction.scored.uncalibrated
        else "Sent to review, because no threshold was in force.",
        Reason.OUT_OF_DOMAIN: "Sent to review, because it is far shorter or stranger than "
        "the documents that the model learnt from.",
        Reason.BREAKER: "Sent to review, because the breaker had stopped automatic sending.",
        Reason.RULE: f"Sent to review by the rule “{prediction.rule}”.",
    }
    return sentences[prediction.reason]


def posted_again(prediction: Prediction) -> str:
    """Return how often a document was posted before it was sent; empty for its first version."""
    earlier = prediction.earlier_versions
    return f"after {plural(earlier, 'other version')} not sent" if earlier else ""


def urgency(priority: int, due_at: datetime | None, now: datetime) -> str:
    """Return in words how urgent a review is; empty if nobody said so.

    >>> came, due = datetime(2026, 11, 27), datetime(2026, 11, 28, 12)
    >>> urgency(1, due, came), urgency(0, due, due)
    ('High priority, due 28 Nov 2026, 12:00 UTC', 'Overdue since 28 Nov 2026, 12:00 UTC')
    """
    parts = [f"{Priority(priority).name.lower()} priority"] * bool(priority)
    if due_at is not None:
        parts.append(f"{'due' if now < due_at else 'overdue since'} {due_at:%-d %b %Y, %H:%M} UTC")
    text = ", ".join(parts)
    return text[:1].upper() + text[1:]


UNREADABLE = (
    "The stored document cannot be read. An administrator can erase it, or restore a backup."
)


def content(document: Document, weights: Sequence[Sequence[TermWeight]] = ()) -> Markup:
    """Return a text with its evidence marked, or what there is instead of a text."""
    if document.text is not None:
        shown = marked(document.text, [term for terms in weights for term in terms[:MOST_WORDS]])
        return ui.joined(
            Markup('<div class="text" dir="auto" tabindex="0">{}</div>').format(shown),
            ui.text(
                ui.joined(
                    Markup('<mark class="for">{}</mark> ').format("words for"),
                    Markup('<mark class="against">{}</mark>').format("words against"),
                    " the predicted labels, by the active model",
                ),
                "hint",
            )
            if "<mark" in shown
            else Markup(""),
        )
    if document.features is None:
        if document.unreadable:
            return ui.text(UNREADABLE, "alert")
        erased = document.answer is None
        missing = "The text was erased." if erased else "This document came without its text."
        return ui.text(missing, "empty")
    named = sorted(document.features.items(), key=lambda pair: -abs(pair[1]))
    return Markup("<dl>{}</dl>").format(
        ui.joined(*(Markup("<dt>{}</dt><dd>{}</dd>").format(*pair) for pair in named))
    )


def answered(prediction: Prediction) -> list[ui.Piece]:
    """Return a card with what another model answered."""
    answer = prediction.document.answer
    if answer is None:
        return []
    sets = [candidate["labels"] for candidate in answer.get("candidates", ())]
    sets += [answer["labels"]] if "labels" in answer else []
    pieces = [
        ("Probabilities", _listed([f"{x} {p:.3g}" for x, p in answer.get("scores", {}).items()])),
        ("Label sets", _listed([", ".join(labels) or "no labels" for labels in sets])),
    ]
    facts = [(name, value) for name, value in pieces if value]
    return [ui.Card("Another model's answer", [ui.Facts(facts)])]


_Evidence = tuple[str, Sequence[TermWeight]]
_EVIDENCE: Sequence[ui.Column[_Evidence]] = (
    ui.Column("Label", lambda row: row[0], "head"),
    ui.Column("For it", lambda row: _words("for", row[1]), "wrap"),
    ui.Column("Against it", lambda row: _words("against", row[1]), "wrap"),
)


def evidence(prediction: Prediction, weights: Sequence[Sequence[TermWeight]]) -> list[ui.Piece]:
    """Return a table of the words for and against each predicted label."""
    rows = [
        (label, terms)
        for label, terms in zip(prediction.scored.labels or (), weights, strict=False)
    ]
    if not any(weights):
        return []
    return [ui.Table("Words for and against each label", _EVIDENCE, rows)]


def _words(kind: str, terms: Sequence[TermWeight]) -> Markup:
    rows = [
        Markup('<mark class="{}" dir="auto">{}</mark> ({})').format(
            kind, term.term.replace("*", "…"), strength(term)
        )
        for term in terms
        if (term.weight > 0) == (kind == "for")
    ]
    return Markup(", ").join(rows[:MOST_EVIDENCE]) or ui.quiet("nothing")


def strength(term: TermWeight) -> str:
    """Return how strongly a term speaks: a weight adds to the logarithm of the odds.

    >>> [strength(TermWeight("fever", weight)) for weight in (1.5, -0.5, 0.1)]
    ['strong', 'moderate', 'weak']
    """
    size = abs(term.weight)
    return "strong" if size >= STRONG else "moderate" if size >= MODERATE else "weak"


def _listed(parts: Sequence[str]) -> str:
    more = len(parts) - MOST_SHOWN
    return "; ".join(parts[:MOST_SHOWN]) + (f"; {more} more" if more > 0 else "")


def marked(text: str, terms: Sequence[TermWeight]) -> Markup:
    """Return a text with the words marked that speak for or against its labels.

    A term is one word, two that follow each other or, with a star behind, how words begin.

    >>> marked("<b> Dry coughs", [TermWeight("cough*", 1.0), TermWeight("dry", -0.5)])
    Markup('&lt;b&gt; <mark class="against">Dry</mark> <mark class="for">coughs</mark>')
    >>> marked("E11.9 患者发烧", [TermWeight("发烧", 1.0), TermWeight("e11", 1.0)])
    Markup('E11.9 患者<mark class="for">发烧</mark>')
    """
    kinds = {term.term: "against" for term in terms}
    kinds |= {term.term: "for" for term in terms if term.weight > 0}
    if not kinds:
        return Markup("{}").format(text)
    placed = list(placed_words(text))
    pieces, end = [], 0
    for here, after in zip(placed, [*placed[1:], None], strict=True):
        # The longest first, so that two words are marked together rather than the first alone.
        if after is not None and (kind := kinds.get(f"{here.word} {after.word}")):
            last = after.end
        elif kind := _kind_of(here.word, kinds):
            last = here.end
        else:
            continue
        start = max(here.start, end)  # in a script without spaces words overlap
        if last > start:
            pieces += [
                Markup("{}").format(text[end:start]),
                Markup('<mark class="{}">{}</mark>').format(kind, text[start:last]),
            ]
            end = last
    return ui.joined(*pieces, text[end:])


def _kind_of(word: str, kinds: Mapping[str, str]) -> str | None:
    """Return whether a word speaks for a label or against it, by itself or by how it begins."""
    beginnings = (f"{word[:length]}*" for length in range(len(word), 0, -1))
    return next((kinds[term] for term in (word, *beginnings) if term in kinds), None)


def candidates(prediction: Prediction) -> Sequence[ui.Part]:
    """Return the label sets; the less likely ones unfold, and without a model there are none."""
    sets = prediction.scored.candidates
    if not sets:
        return ()
    likely, others = sets[:MOST_SETS], sets[MOST_SETS:]
    rest = f"{plural(len(others), 'less likely set')}"
    more = [ui.More(rest, [ui.Table("Less likely label sets", _SETS, others)])] if others else []
    return [ui.Table("Likeliest label sets", _SETS, likely), *more]


_SETS: Sequence[ui.Column[Candidate]] = (
    ui.Column("Label set", lambda candidate: labels_of(candidate.labels), "wrap"),
    ui.Column("Confidence", lambda candidate: confidence(candidate.confidence), "count"),
)

"""Which labels can be trusted: the label table of checked documents."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from setwise.models.evaluation.label_table import KNOWN_WITHIN, LabelRow, LabelShare, label_table
from setwise.service.domain.evidence import CheckedDocument, confident
from setwise.service.domain.labels.tree import WrongSets, wrong_sets
from setwise.service.domain.predictions import Marginal
from setwise.service.domain.reports import Standing

BoundedShare = LabelShare
"""A share with its bounds, as pages show it."""

POINTS = round(100 * KNOWN_WITHIN)
"""A precision is known once its bounds lie within so many points of it."""


class LabelBasis(StrEnum):
    """The documents that a label table is of."""

    SENT = "sent"
    """Checked ones among those confident enough to be sent: audits draw them at random."""
    CHECKED = "checked"
    """All checked ones, among them those that people read because the model was unsure."""


@dataclass(frozen=True)
class CheckedLabel:
    """A label in checked documents."""

    row: LabelRow
    """Counts, shares and bounds; its mean probability is that of the stored marginals."""
    of_model: bool
    """Whether the active model knows it."""


@dataclass(frozen=True)
class LabelTrust:
    """The labels of checked documents, those with most errors first."""

    basis: LabelBasis
    documents: int
    """Number of checked documents that the rows are of."""
    drawn: bool
    """Whether audits drew them at random, so that the bounds hold for what is sent."""
    wrong: WrongSets
    """Those of the documents whose whole set is wrong."""
    labels: tuple[CheckedLabel, ...]


def label_trust(
    checks: Sequence[CheckedDocument],
    known: Standing,
    marginals: Mapping[str, Sequence[Marginal]],
    vocabulary: Collection[str],
    basis: LabelBasis,
    *,
    parents: Mapping[str, str],
) -> LabelTrust:
    """Return the label table of checked documents.

    Whether a document is checked depends on its confidence alone, and confident ones are drawn. So
    counts of these are a random sample; counts of all checked ones describe only themselves.

    ``known``: Weights of the checks; one without a weight does not count.
    ``marginals``: Of the predictions, by id.
    ``parents``: The label above each that has one.
    """
    chosen = [
        check
        for check in checks
        if known.of(check) > 0.0 and (basis is LabelBasis.CHECKED or confident(check))
    ]
    drawn = basis is LabelBasis.SENT and known.drawn
    wrong = wrong_sets(((check.labels, check.truth) for check in chosen), parents)
    if not chosen:
        return LabelTrust(basis, 0, drawn, wrong, ())
    sums: defaultdict[str, float] = defaultdict(float)
    for check in chosen:
        for marginal in marginals.get(check.id, ()):
            sums[marginal.label] += marginal.probability
    table = label_table([check.truth for check in chosen], [check.labels for check in chosen])
    rows = (
        replace(row, mean_probability=sums[row.label] / len(chosen)) for row in table.worst_first()
    )
    labels = tuple(CheckedLabel(row, row.label in vocabulary) for row in rows)
    return LabelTrust(basis, len(chosen), drawn, wrong, labels)

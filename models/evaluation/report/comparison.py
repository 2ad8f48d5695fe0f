"""Two models on the same documents, with paired tests."""

from typing import NamedTuple

from setwise.models.evaluation.paired import compare_confidences
from setwise.models.evaluation.report.findings import ModelFindings
from setwise.models.figures.numerals import chance, percent, plain, plural
from setwise.models.guarantees.binomial import upper_tail

_LEVEL = 0.05
"""p-value below which a difference counts as proved."""


class ModelComparison(NamedTuple):
    """Rows of a table, each a measure and its value for both models, and the tests in words."""

    rows: tuple[tuple[str, str, str], ...]
    sentence: str


def compare_models(one: ModelFindings, other: ModelFindings) -> ModelComparison:
    """Compare two models on the same documents.

    The sets by an exact sign test on documents that one model alone has right. The confidences, if
    the same sets are right, by the paired test of their squared errors.
    """
    pairs = zip(_measures(one), _measures(other), strict=True)
    return ModelComparison(
        tuple((name, value, another) for (name, value), (_, another) in pairs), _tests(one, other)
    )


def _measures(findings: ModelFindings) -> list[tuple[str, str]]:
    metrics, judged = findings.metrics, findings.metrics.judgement
    coverage = getattr(findings.proof, "coverage", None)
    return [
        ("sets that are right", percent(metrics.set_accuracy)),
        ("F1 of a document", plain(metrics.instance_f1)),
        ("Brier score", plain(metrics.brier)),
        ("ECE", plain(judged.ece.value)),
        ("AUROC", "unknown" if judged.auroc is None else plain(judged.auroc.value)),
        ("share proved to reach the target", "nothing" if coverage is None else percent(coverage)),
    ]


def _tests(one: ModelFindings, other: ModelFindings) -> str:
    better = int((one.right & ~other.right).sum())
    worse = int((other.right & ~one.right).sum())
    apart = min(1.0, 2 * float(upper_tail(max(better, worse), better + worse, 0.5)))
    ahead = one.name if better > worse else other.name
    told = f"{ahead} is right more often" if apart < _LEVEL else "No proved difference"
    sets = (
        f"{told}: in {plural(better, 'document')} only {one.name} is right, in {worse:,} only "
        f"{other.name} (sign test, p {chance(apart)})."
    )
    if better or worse:
        return sets
    errors = compare_confidences(other.confidence, one.confidence, one.right)
    gain = f"{plain(abs(errors.gain))} {'lower' if errors.gain >= 0 else 'higher'}"
    return f"{sets} The Brier score of {one.name} is {gain} (p {chance(errors.p_value)})."

"""The report's first page: what could go out unread, without statistics."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
from markupsafe import Markup

from setwise.models.evaluation.report.elements import tag
from setwise.models.evaluation.report.findings import ModelFindings
from setwise.models.figures.numerals import confidence, percent, plural
from setwise.models.guarantees.binomial import lower_bound
from setwise.models.guarantees.certificates import WHY_REFUSED, Certificate, Certification
from setwise.models.results import AutomationAt

_MOST_PLACES = 400
"""Thresholds among which the slider chooses."""

_RISK = 0.05  # of the slider's bounds


def verdict(findings: ModelFindings) -> tuple[str, ...]:
    """Return how many documents could go out unread, and the evidence, in plain sentences."""
    proof, n = findings.proof, findings.metrics.n
    if not isinstance(proof, Certificate):
        why = f"{WHY_REFUSED[proof.reason]}. People would read all of them."
        return f"None of the {plural(n, 'document')} should go out unread yet: {why}", *_to_do(
            proof
        )
    wrong = proof.n_above - proof.n_good
    errors = "none of them was wrong here" if wrong == 0 else f"about {wrong:,} would be wrong"
    sent = f"Of {plural(n, 'document')} {proof.n_above:,} could go out unread; {errors}."
    right = f"{_of_hundred(proof.n_good / proof.n_above)} sent ones are right"
    risk = f"with a risk of {percent(proof.risk, 0)} that luck made it look so"
    return (
        f"{sent} People would read {n - proof.n_above:,}.",
        f"{right}, at least {100 * proof.target:.3g}: proved, {risk}.",
    )


def _to_do(proof: Certification) -> tuple[str, ...]:
    further = getattr(proof, "further_audits", None)
    if further is None:
        return ()
    return (f"About {further:,} more documents would do, as it looks now.",)


def _of_hundred(share: float) -> str:
    return f"{100 * share:.3g} of 100"


def two_thresholds(measured: AutomationAt, proof: Certification) -> str:
    """Return the threshold that reaches the target here, and the one that is proved, as words."""
    target = percent(proof.target)
    if measured.threshold is None:
        return f"No threshold reaches {target} on these documents."
    here = (
        f"Measured: from {measured.threshold:.4f} up, {target} is reached on these documents, "
        "by which the threshold was chosen"
    )
    if isinstance(proof, Certificate):
        return f"{here}. Proved for documents to come: from {proof.threshold:.4f} up."
    return f"{here}. Proved for documents to come: none."


def slider(findings: ModelFindings) -> Iterator[Markup]:
    """Yield a slider of the threshold; without scripts, a table of some thresholds stands there."""
    order = np.argsort(-findings.confidence, kind="stable")
    falling, right = findings.confidence[order], np.cumsum(findings.right[order])
    # A threshold sends all documents of one confidence.
    ends = np.flatnonzero(np.append(np.diff(falling) != 0, True))
    proof = findings.proof
    start = len(ends) // 2
    if isinstance(proof, Certificate):
        start = int(np.searchsorted(-falling[ends], -proof.threshold))
    kept = np.unique(
        [*np.linspace(0, len(ends) - 1, _MOST_PLACES).astype(int), min(start, len(ends) - 1)]
    )
    places = [
        [
            round(float(falling[end]), 6),
            int(end) + 1,
            int(end + 1 - right[end]),
            round(float(lower_bound(right[end], end + 1, _RISK)), 4),
        ]
        for end in ends[kept].tolist()
    ]
    chosen = int(np.searchsorted(kept, min(start, len(ends) - 1)))
    yield tag(
        "div",
        tag(
            "label",
            "Try another threshold ",
            tag(
                "input",
                type="range",
                min="0",
                max=str(len(places) - 1),
                value=str(chosen),
                data_places=json.dumps(places),
                data_documents=str(len(falling)),
            ),
        ),
        tag("output", ""),
        class_="slider",
        hidden="",
    )
    rows = [places[place] for place in np.unique(np.linspace(0, len(places) - 1, 8).astype(int))]
    yield tag(
        "noscript",
        *(
            tag("p", f"From {confidence(level)} up: {sent:,} go out, {wrong:,} of them wrong.")
            for level, sent, wrong, _ in rows
        ),
    )


@cache
def script() -> Markup:
    """Return the script that moves the slider and sorts tables; the file is whole without it."""
    return Markup(Path(__file__).with_name("report.js").read_text("utf-8"))  # noqa: S704 -- ours

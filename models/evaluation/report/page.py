"""The report as one HTML file, which loads nothing."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from markupsafe import Markup

from setwise.models.classifier import SetClassifier
from setwise.models.data.datasets import Dataset
from setwise.models.evaluation.report import figures
from setwise.models.evaluation.report.comparison import compare_models
from setwise.models.evaluation.report.elements import folded, table, tag
from setwise.models.evaluation.report.findings import (
    ConfidentError,
    ModelFindings,
    Progress,
    gather_findings,
)
from setwise.models.evaluation.report.label_tables import label_tables
from setwise.models.evaluation.report.opening import script, slider, two_thresholds, verdict
from setwise.models.evaluation.report.slices import Slice
from setwise.models.figures.numerals import confidence, percent, plain, plural
from setwise.models.figures.picture import figures_style
from setwise.models.guarantees.certificates import Certification
from setwise.models.predictor import SetPredictor

_ERRORS = 4
"""Errors that are shown at once."""


_TERMS_OF = {
    "text": "In brackets: the document's words that weigh most in the label's own score.",
    "vectors": "In brackets: the document's features that weigh most in the label's own score.",
    "external": "Another model scores the labels, so that no words for or against them are known.",
}


@dataclass(frozen=True)
class ModelReport:
    """A report on a model; notebooks show it.

    Attributes
    ----------
    html : str
        The whole file.
    findings : tuple of ModelFindings
        Of the model, and of the one that it was compared with.
    """

    html: str
    findings: tuple[ModelFindings, ...]

    @property
    def certificate(self) -> Certification:
        """What the documents prove of the model: a certificate or a refusal."""
        return self.findings[0].proof

    def save(self, path: str | Path) -> Path:
        """Write the file, and return its path."""
        Path(path).write_text(self.html, encoding="utf-8")
        return Path(path)

    def _repr_html_(self) -> str:
        content = base64.b64encode(self.html.encode()).decode()
        return (
            f'<iframe src="data:text/html;base64,{content}" title="Report" width="100%" '
            'height="800"></iframe>'
        )


def report(
    model: SetPredictor | SetClassifier,
    dataset: Dataset,
    *,
    compare: SetPredictor | SetClassifier | None = None,
    target: float = 0.95,
    risk: float = 0.1,
    names: Sequence[str] = ("model", "other model"),
    by: Mapping[str, Sequence[object]] | None = None,
    trained_on: Dataset | None = None,
    data: str = "",
    warnings: Sequence[str] = (),
    command: str = "",
    progress: Progress | None = None,
) -> ModelReport:
    """Return a report on a model to look at.

    Parameters
    ----------
    model : SetPredictor or fitted SetClassifier
    dataset : Dataset
        Documents that the model has not seen, of its kind; for a classifier on top of another
        one, those that this one reads.
    compare : SetPredictor or fitted SetClassifier, optional
        Another model, shown beside the first, with paired tests.
    target : float, default=0.95
        Accuracy to prove for what is sent, in (0, 1].
    risk : float, default=0.1
        Probability, in (0, 1), that the proof may be wrong. It takes the documents as a random
        sample of those to come.
    names : sequence of str
        Of the two models.
    by : mapping of str to sequence of length n, optional
        What else divides the documents, such as a department: each value has its figures.
    trained_on : Dataset, optional
        What the models learnt from, to find documents of it again.
    data : str
        The name of the documents.
    warnings : sequence of str
        What was said when they were read.
    command : str
        How the report is made again.
    progress : callable, optional
        Called with the share of the work done, in [0, 1].

    Returns
    -------
    ModelReport
        ``save`` writes the file; ``certificate`` and ``findings`` have what it shows.

    Raises
    ------
    ValueError
        If the documents do not fit a model, or a value is out of range.
    TypeError
        If a model or the documents are something else.
    """
    models = [model] if compare is None else [model, compare]

    def part(place: int) -> Progress | None:
        if progress is None:
            return None
        return lambda fraction: progress((place + fraction) / len(models))

    findings = tuple(
        gather_findings(
            each,
            dataset,
            name=name,
            target=target,
            risk=risk,
            by=by,
            trained_on=trained_on,
            progress=part(place),
        )
        for place, (each, name) in enumerate(zip(models, names, strict=False))
    )
    of = f"{data or 'documents'} (digest {dataset.fingerprint[:12]})"
    return ModelReport(str(_page(findings, target, of, warnings, command)), findings)


@cache
def _style() -> Markup:
    layout = Path(__file__).with_name("report.css").read_text("utf-8")
    return figures_style() + Markup(layout)  # noqa: S704 -- ours


def _page(
    findings: tuple[ModelFindings, ...],
    target: float,
    data: str,
    warnings: Sequence[str],
    command: str,
) -> Markup:
    title = f"Report on {' and '.join(each.name for each in findings)}"
    parts = [*_comparison(findings), *_parts(findings[0], "m0", target)]
    parts.append(("How this was made", [_made(findings, command)]))
    contents = [
        tag("li", tag("a", name, href=f"#part-{place}")) for place, (name, _) in enumerate(parts)
    ]
    body = Markup("").join(
        [
            tag("h1", title),
            *_opening(findings[0], data, warnings),
            tag("nav", tag("ol", *contents), aria_label="Contents"),
            *(
                Markup("").join([tag("h2", name, id=f"part-{place}"), *inside])
                for place, (name, inside) in enumerate(parts)
            ),
        ]
    )
    return Markup(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<title>{title}</title><style>{style}</style></head><body><main>{body}</main>"
        "<script>{script}</script></body></html>\n"
    ).format(title=title, style=_style(), body=body, script=script())


def _opening(findings: ModelFindings, data: str, warnings: Sequence[str]) -> Iterator[Markup]:
    """Yield the first page: the answer, remarks on the data, and the slider."""
    first, *more = verdict(findings)
    yield tag("p", first, class_="verdict")
    yield from (tag("p", sentence) for sentence in more)
    remarks = [*findings.remarks, *warnings]
    if remarks:
        yield tag("ul", *(tag("li", remark) for remark in remarks), class_="remarks")
    yield from slider(findings)
    today = datetime.now(UTC)
    yield tag(
        "p",
        f"{today.day} {today:%B %Y}. {plural(findings.metrics.n, 'document')}: {data}.",
        class_="quiet-text",
    )


Part = tuple[str, list[Markup]]
"""A heading, and what stands below it."""


def _parts(findings: ModelFindings, prefix: str, target: float) -> Iterator[Part]:
    drawn = [
        figures.sending(findings, f"{prefix}-sending", target),
        figures.reliability(findings, f"{prefix}-reliability"),
        figures.histogram(findings, f"{prefix}-histogram"),
        figures.sizes(findings, f"{prefix}-sizes"),
    ]
    shown = tag("div", *(_figure(each) for each in drawn if each is not None), class_="figures")
    thresholds = tag("p", two_thresholds(findings.measured, findings.proof))
    yield "The confidence", [thresholds, _tiles(findings), shown]
    if findings.slices:
        yield "Kinds of documents", [_slices(findings.slices)]
    if findings.metrics.labels is not None:
        yield "The labels", [*label_tables(findings.metrics.labels)]
    if findings.pairs:
        rows = [(pair.predicted, pair.right, f"{pair.documents:,}") for pair in findings.pairs]
        caption = "In one document, the first was too much and the second was missing."
        pairs = table(("given", "right instead", "documents"), rows, caption, class_="pairs")
        yield "Labels given for each other", [pairs]
    if findings.errors:
        cards = [_error(error) for error in findings.errors]
        first = tag("div", *cards[:_ERRORS], class_="errors")
        terms = tag("p", _TERMS_OF[findings.kind], class_="quiet-text")
        rest = folded(
            f"{len(cards) - _ERRORS:,} more", [tag("div", *cards[_ERRORS:], class_="errors")]
        )
        more = [rest] if cards[_ERRORS:] else []
        yield "The most confident errors", [terms, first, *more]


def _slices(slices: Sequence[Slice]) -> Markup:
    rows = [
        (
            f"{part.by}: {part.name}",
            f"{part.n:,}",
            f"{percent(part.n_right / part.n)} ({percent(part.low)} to {percent(part.high)})",
            f"{percent(part.n_sent / part.n)}",
            percent(part.n_sent_right / part.n_sent) if part.n_sent else "none",
        )
        for part in slices
    ]
    heads = ("documents by", "documents", "right", "could go out", "right of these")
    return table(heads, rows, "Each share with its own bounds, at 95 % each.", class_="sortable")


def _tiles(findings: ModelFindings) -> Markup:
    metrics, judged = findings.metrics, findings.metrics.judgement
    tiles = [
        (
            "sets that are right",
            percent(metrics.set_accuracy),
            f"between {percent(metrics.set_accuracy_low)} and {percent(metrics.set_accuracy_high)}",
        ),
        ("F1 of a document", plain(metrics.instance_f1), f"micro {plain(metrics.micro_f1)}"),
        (
            "AUROC of the confidence",
            "unknown" if judged.auroc is None else plain(judged.auroc.value),
            "right sets above wrong ones",
        ),
        ("ECE", plain(judged.ece.value), f"alignment error {plain(metrics.alignment_error)}"),
        ("Brier score", plain(metrics.brier), f"of {plain(metrics.uncertainty)} without a model"),
    ]
    return tag(
        "dl",
        *(
            tag("div", tag("dt", name), tag("dd", value, tag("small", more)))
            for name, value, more in tiles
        ),
        class_="tiles",
    )


def _figure(figure: figures.ReportFigure) -> Markup:
    legend = [tag("li", words, class_=tone) for tone, words in figure.legend]
    return tag(
        "section",
        tag("h3", figure.title),
        tag("p", figure.says),
        *([tag("ul", *legend, class_="legend")] if legend else []),
        tag(
            "div",
            figure.svg,
            class_="chart-box",
            tabindex="0",
            role="group",
            aria_label=figure.title,
        ),
        class_="figure",
    )


def _error(error: ConfidentError) -> Markup:
    reasons = [
        tag(
            "li",
            f"{'Too much' if label.extra else 'Missing'}: {label.label}",
            *([_weighed(label.terms)] if label.terms else []),
        )
        for label in error.labels
    ]
    return tag(
        "article",
        tag("h3", f"{error.document}: confidence {confidence(error.confidence)}"),
        *([tag("p", error.excerpt, class_="quiet-text")] if error.excerpt else []),
        tag("p", f"Predicted {_set(error.predicted)}; right is {_set(error.true)}."),
        tag("ul", *reasons),
        class_="error",
    )


def _weighed(terms: Sequence[tuple[str, float]]) -> Markup:
    sides = {
        "for it": [name for name, weight in terms if weight > 0],
        "against it": [name for name, weight in terms if weight < 0],
    }
    words = "; ".join(f"{side}: {', '.join(names)}" for side, names in sides.items() if names)
    return tag("span", f" ({words})", class_="quiet-text")


def _set(labels: Sequence[str]) -> str:
    return ", ".join(f"“{label}”" for label in labels) or "no label"


def _comparison(findings: tuple[ModelFindings, ...]) -> Iterator[Part]:
    if len(findings) == 1:
        return
    both = compare_models(*findings)
    other = findings[1]
    parts = _parts(other, "m1", other.proof.target)
    more = [Markup("").join([tag("h3", name), *inside]) for name, inside in parts]
    told = tag("p", both.sentence, class_="verdict")
    shown = table(("", *(each.name for each in findings)), both.rows, "")
    yield "Both models on the same documents", [told, shown, folded(f"All of {other.name}", more)]


def _made(findings: tuple[ModelFindings, ...], command: str) -> Markup:
    names = list(dict.fromkeys(name for each in findings for name in each.facts))
    rows = [(name, *(each.facts.get(name, "") for each in findings)) for name in names]
    heads = ("", *(each.name for each in findings))
    if command:
        rows.append(("command", command, *[""] * (len(findings) - 1)))
    return table(heads, rows, "", class_="words")

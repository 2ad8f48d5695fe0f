"""The report as one HTML file, which loads nothing and runs no script."""

import base64
import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markupsafe import Markup, escape

from setwise.models.classifier import SetClassifier
from setwise.models.data.datasets import Dataset
from setwise.models.evaluation.label_table import LabelRow, LabelShare, LabelTable
from setwise.models.evaluation.report import figures
from setwise.models.evaluation.report.comparison import compare_models
from setwise.models.evaluation.report.findings import (
    ConfidentError,
    ModelFindings,
    Progress,
    gather_findings,
)
from setwise.models.figures.numerals import confidence, percent, plain, plural
from setwise.models.figures.picture import figures_style
from setwise.models.guarantees.certificates import Certification
from setwise.models.predictor import SetPredictor

_LABELS = 40
"""Labels that are shown at once; the others are behind a summary."""


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
        gather_findings(each, dataset, name=name, target=target, risk=risk, progress=part(place))
        for place, (each, name) in enumerate(zip(models, names, strict=False))
    )
    return ModelReport(str(_page(findings, target, command)), findings)


@cache
def _style() -> Markup:
    layout = Path(__file__).with_name("report.css").read_text("utf-8")
    return figures_style() + Markup(layout)  # noqa: S704 -- ours


def _page(findings: tuple[ModelFindings, ...], target: float, command: str) -> Markup:
    first = findings[0]
    title = f"Report on {' and '.join(each.name for each in findings)}"
    body = Markup("").join(
        [
            _tag("h1", title),
            _tag("p", _verdict(first), class_="verdict"),
            *(_comparison(findings) if len(findings) > 1 else ()),
            *(section for each in findings for section in _model(each, findings, target)),
            *_made(findings, command),
        ]
    )
    return Markup(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<title>{title}</title><style>{style}</style></head><body><main>{body}</main></body></html>\n"
    ).format(title=title, style=_style(), body=body)


def _verdict(findings: ModelFindings) -> str:
    metrics = findings.metrics
    return (
        f"{percent(metrics.set_accuracy)} of the label sets of {plural(metrics.n, 'document')} are "
        f"right. {' '.join(str(findings.proof).split(chr(10)))}"
    )


def _model(
    findings: ModelFindings, everyone: tuple[ModelFindings, ...], target: float
) -> Iterator[Markup]:
    several = len(everyone) > 1
    prefix = f"m{everyone.index(findings)}"
    if several:
        yield _tag("h2", findings.name)
    yield _tiles(findings)
    drawn = [
        figures.reliability(findings, f"{prefix}-reliability"),
        figures.sending(findings, f"{prefix}-sending", target),
        figures.histogram(findings, f"{prefix}-histogram"),
        figures.sizes(findings, f"{prefix}-sizes"),
    ]
    yield _tag("h2", f"The confidence{' of ' + findings.name if several else ''}")
    yield _tag("div", *(_figure(each) for each in drawn if each is not None), class_="figures")
    if findings.metrics.labels is not None:
        yield _tag("h2", f"The labels{' of ' + findings.name if several else ''}")
        yield from _labels(findings.metrics.labels)
    if findings.pairs:
        yield _tag("h2", f"Labels given for each other{' by ' + findings.name if several else ''}")
        yield _table(
            ("given", "right instead", "documents"),
            [(pair.predicted, pair.right, f"{pair.documents:,}") for pair in findings.pairs],
            "In one document, the first was too much and the second was missing.",
            class_="pairs",
        )
    if findings.errors:
        yield _tag("h2", f"The most confident errors{' of ' + findings.name if several else ''}")
        yield _tag("p", _TERMS_OF[findings.kind], class_="quiet-text")
        yield _tag("div", *map(_error, findings.errors), class_="errors")


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
    return _tag(
        "dl",
        *(
            _tag("div", _tag("dt", name), _tag("dd", value, _tag("small", more)))
            for name, value, more in tiles
        ),
        class_="tiles",
    )


def _figure(figure: figures.ReportFigure) -> Markup:
    legend = [_tag("li", words, class_=tone) for tone, words in figure.legend]
    return _tag(
        "section",
        _tag("h3", figure.title),
        _tag("p", figure.says),
        *([_tag("ul", *legend, class_="legend")] if legend else []),
        _tag(
            "div",
            figure.svg,
            class_="chart-box",
            tabindex="0",
            role="group",
            aria_label=figure.title,
        ),
        class_="figure",
    )


def _labels(table: LabelTable) -> Iterator[Markup]:
    ranked = table.worst_first()
    caption = (
        f"Bounds hold with {percent(table.level, 0)}. Further checks: documents with the label "
        "predicted until its precision is known to within five points."
    )
    yield _label_rows(ranked[:_LABELS], caption)
    if len(ranked) > _LABELS:
        yield _tag(
            "details",
            _tag("summary", f"{len(ranked) - _LABELS:,} labels with fewer errors"),
            _label_rows(ranked[_LABELS:], "The other labels."),
        )
    content = base64.b64encode(_as_csv(ranked).encode()).decode()
    yield _tag(
        "p",
        _tag(
            "a", "All labels as CSV", href=f"data:text/csv;base64,{content}", download="labels.csv"
        ),
    )


_HEADS = (
    "label", "has it", "predicted", "missing", "extra", "precision", "recall", "mean probability",
    "further checks",
)  # fmt: skip


def _label_rows(rows: Iterable[LabelRow], caption: str) -> Markup:
    cells = [
        (
            row.label,
            *(f"{n:,}" for n in (row.n_true, row.n_predicted, row.missing, row.extra)),
            _bounded(row.precision),
            _bounded(row.recall),
            "unknown" if row.mean_probability is None else percent(row.mean_probability),
            f"{row.further_checks:,}",
        )
        for row in rows
    ]
    return _table(_HEADS, cells, caption)


def _bounded(share: LabelShare) -> str:
    if share.value is None:
        return "unknown"
    return f"{percent(share.value, 0)} ({percent(share.low, 0)} to {percent(share.high, 0)})"


def _as_csv(rows: Iterable[LabelRow]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(
        (*_HEADS[:5], "precision", "precision low", "precision high", "recall", "recall low",
         "recall high", *_HEADS[7:])
    )  # fmt: skip
    for row in rows:
        shares = [
            value
            for share in (row.precision, row.recall)
            for value in (share.value, share.low, share.high)
        ]
        counts = (row.n_true, row.n_predicted, row.missing, row.extra)
        writer.writerow((row.label, *counts, *shares, row.mean_probability, row.further_checks))
    return out.getvalue()


def _error(error: ConfidentError) -> Markup:
    reasons = [
        _tag(
            "li",
            f"{'Too much' if label.extra else 'Missing'}: {label.label}",
            *([_weighed(label.terms)] if label.terms else []),
        )
        for label in error.labels
    ]
    return _tag(
        "article",
        _tag("h3", f"{error.document}: confidence {confidence(error.confidence)}"),
        *([_tag("p", error.excerpt, class_="quiet-text")] if error.excerpt else []),
        _tag("p", f"Predicted {_set(error.predicted)}; right is {_set(error.true)}."),
        _tag("ul", *reasons),
        class_="error",
    )


def _weighed(terms: Sequence[tuple[str, float]]) -> Markup:
    sides = {
        "for it": [name for name, weight in terms if weight > 0],
        "against it": [name for name, weight in terms if weight < 0],
    }
    words = "; ".join(f"{side}: {', '.join(names)}" for side, names in sides.items() if names)
    return _tag("span", f" ({words})", class_="quiet-text")


def _set(labels: Sequence[str]) -> str:
    return ", ".join(f"“{label}”" for label in labels) or "no label"


def _comparison(findings: tuple[ModelFindings, ...]) -> Iterator[Markup]:
    both = compare_models(*findings)
    yield _tag("h2", "Both models on the same documents")
    yield _table(("", *(each.name for each in findings)), both.rows, both.sentence)


def _made(findings: tuple[ModelFindings, ...], command: str) -> Iterator[Markup]:
    yield _tag("h2", "How this was made")
    names = list(dict.fromkeys(name for each in findings for name in each.facts))
    rows = [(name, *(each.facts.get(name, "") for each in findings)) for name in names]
    heads = ("", *(each.name for each in findings))
    if command:
        rows.append(("command", command, *[""] * (len(findings) - 1)))
    yield _table(heads, rows, "", class_="words")


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str, **attributes: str
) -> Markup:
    head = _tag(
        "tr",
        *(
            _tag("th" if name else "td", name, **({"scope": "col"} if name else {}))
            for name in heads
        ),
    )
    body = [
        _tag("tr", _tag("th", row[0], scope="row"), *(_tag("td", cell) for cell in row[1:]))
        for row in rows
    ]
    table = _tag("table", _tag("thead", head), _tag("tbody", *body), **attributes)
    box = _tag(
        "div", table, class_="scroll", tabindex="0", role="group", aria_label=caption or "Table"
    )
    # Beside the box: in it, a caption is as wide as the table, and scrolls out of sight with it.
    return Markup("").join([*([_tag("p", caption, class_="caption")] if caption else []), box])


def _tag(name: str, *inside: str | Markup, **attributes: str) -> Markup:
    """Return an element; an underscore in an attribute's name stands for a hyphen."""
    written = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value)
        for key, value in attributes.items()
    )
    content = Markup("").join(escape(each) for each in inside)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), written, content)  # noqa: S704 -- ours

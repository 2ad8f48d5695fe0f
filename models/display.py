"""How a fitted model shows itself in a console and in a notebook."""

import html
from collections.abc import Mapping, Sequence
from typing import Any

_READS = {"text": "texts", "vectors": "vectors", "external": "another model's answers"}
_NAMED = 8  # labels that a notebook lists


def summary_of(
    kind: str, label_names: Sequence[str], version: str, manifest: Mapping[str, Any]
) -> dict[str, str]:
    """Return what a model is, by name; what its manifest lacks is left out."""
    options = manifest.get("training", {})
    accuracy = manifest.get("metrics", {}).get("set_accuracy")
    documents = manifest.get("data", {}).get("n_documents")
    facts = {
        "reads": _READS[kind],
        "labels": f"{len(label_names):,}",
        "method": " ".join(filter(None, (manifest.get("method"), options.get("preset")))),
        "trained on": "" if documents is None else f"{documents:,} documents",
        "set accuracy": "" if accuracy is None else f"{accuracy:.3f} by cross-fitting",
        "version": version,
    }
    return {name: fact for name, fact in facts.items() if fact}


def one_line(kind: str, facts: Mapping[str, str]) -> str:
    """Return the representation of an object in a console."""
    return f"<{kind}: {', '.join(f'{name} {fact}' for name, fact in facts.items())}>"


def table(kind: str, facts: Mapping[str, str], label_names: Sequence[str]) -> str:
    """Return the representation of an object in a notebook."""
    shown = ", ".join(label_names[:_NAMED])
    more = len(label_names) - _NAMED
    rows = {**facts, "label names": f"{shown} and {more:,} more" if more > 0 else shown}
    cells = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(fact)}</td></tr>"
        for name, fact in rows.items()
    )
    return f"<table><caption>{kind}</caption>{cells}</table>"

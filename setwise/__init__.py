"""Label sets with a calibrated confidence: send the sure ones, review the rest.

Train a model on labelled documents, test it on others, and rank the label sets of a new one:

>>> import setwise, tempfile
>>> from pathlib import Path
>>> from setwise.models.demo_notes import read_notes, write_jsonl
>>> with tempfile.TemporaryDirectory() as folder:
...     n_notes = write_jsonl(read_notes()[:300], Path(folder, "notes.jsonl"))
...     notes = setwise.read_dataset(Path(folder, "notes.jsonl"))
>>> options = setwise.TrainingOptions(method="br", preset="fast", n_folds=2, alpha=1e-3)
>>> model = setwise.train(notes.take(range(250)), options)
>>> metrics = setwise.evaluate(model, notes.take(range(250, 300)))
>>> metrics.n, 0.1 < metrics.set_accuracy < 0.9
(50, True)
>>> best = model.predict_texts(["36yo M, wheeze since yesterday. Impression: asthma."]).ranked(0)[0]
>>> 0.0 <= best.confidence <= 1.0
True

`setwise.save` writes the folder that `setwise.load` and the service read.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

# Learning libraries take seconds to import, and every part of Setwise imports this package first.
_HOME: dict[str, tuple[str, str]] = {
    str(alias.asname): (str(line.module), alias.name)
    for line in ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8")).body
    if isinstance(line, ast.ImportFrom)
    for alias in line.names
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:  # noqa: ANN401  # any public name
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, own_name = _HOME[name]
    value = globals()[name] = getattr(import_module(module), own_name)
    return value


def __dir__() -> list[str]:
    return __all__

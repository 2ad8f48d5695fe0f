"""Says what is wrong with a document that a model cannot read."""

from collections.abc import Sequence
from typing import Literal

from setwise.models.data.json_lines import quoted


class DocumentError(ValueError):
    """A document cannot be read.

    Parameters
    ----------
    document : int
        Number of the document, from 0.
    path : str
        JSON pointer into the document, such as ``/scores/grain``; empty for all of it.
    fault, cure : str
        What is wrong, and what would be right.

    Examples
    --------
    >>> print(DocumentError(2, "/scores/a", "1.5 is no probability", "give one from 0 to 1"))
    document 3, /scores/a: 1.5 is no probability; give one from 0 to 1
    """

    def __init__(self, document: int, path: str, fault: str, cure: str) -> None:
        self.document = document
        self.path = path
        self.fault = fault
        self.cure = cure
        place = f"document {document + 1}" + (f", {path}" if path else "")
        super().__init__(f"{place}: {fault}; {cure}")


class UnknownNames(DocumentError):
    """A document names labels or features that the model does not know.

    Attributes
    ----------
    names : tuple of str
        The unknown names of the document, each once, in order of appearance.
    noun : {"label", "feature"}

    Examples
    --------
    >>> print(UnknownNames(0, "/features", ["ph", "iron"], "feature"))
    document 1, /features: unknown features 'ph', 'iron'; give features of the model
    """

    def __init__(
        self, document: int, path: str, names: Sequence[str], noun: Literal["label", "feature"]
    ) -> None:
        self.names = tuple(dict.fromkeys(names))
        self.noun = noun
        listed = ", ".join(map(quoted, self.names[:5]))
        more = f" and {len(self.names) - 5} more" if len(self.names) > 5 else ""
        nouns = noun if len(self.names) == 1 else f"{noun}s"
        super().__init__(
            document, path, f"unknown {nouns} {listed}{more}", f"give {noun}s of the model"
        )

"""Files of jobs in memory."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO


@dataclass
class FakeFiles:
    """Fills the port `setwise.service.services.files.Files`."""

    stored: dict[str, bytes] = field(default_factory=dict)

    @contextmanager
    def create(self, name: str, *, replacing: str | None = None) -> Iterator[io.BytesIO]:
        file = io.BytesIO()
        yield file
        self.stored[name] = file.getvalue()

    def open(self, name: str) -> BinaryIO:
        if name not in self.stored:
            raise FileNotFoundError(name)
        return io.BytesIO(self.stored[name])

    def version(self, name: str) -> str | None:
        return str(hash(self.stored[name])) if name in self.stored else None

    def names(self, folder: str) -> Sequence[str]:
        below = (name for name in self.stored if name.startswith(f"{folder}/"))
        return sorted({name.removeprefix(f"{folder}/").split("/")[0] for name in below})

    def tidy(self, folder: str) -> None:
        """Every file is complete."""

    def remove(self, folder: str) -> None:
        for name in [name for name in self.stored if name.startswith(f"{folder}/")]:
            del self.stored[name]

"""Opaque list cursors that only this service can make."""

import base64
import hashlib
import hmac
from dataclasses import dataclass, field

from setwise.service.domain.errors import FieldFault, InvalidRequest

_TAG_BYTES = 12


@dataclass(frozen=True)
class Cursors:
    """Writes and reads cursors.

    A cursor names the place where the next page starts. It is signed together with the list and
    its filters, so forged cursors and cursors of other lists are refused.
    """

    secret: bytes = field(repr=False)
    """Shared by all processes of one installation."""

    def write(self, place: str | None, scope: str) -> str | None:
        """Return the cursor of ``place`` in a list; None at its end.

        >>> cursors = Cursors(b"secret")
        >>> cursors.read(cursors.write("b1946", "predictions?"), "predictions?")
        'b1946'
        """
        if place is None:
            return None
        return base64.urlsafe_b64encode(self._tag(place, scope) + place.encode()).decode()

    def read(self, cursor: str | None, scope: str) -> str | None:
        """Return the place that ``cursor`` names; raises `InvalidRequest` if invalid."""
        if cursor is None:
            return None
        try:
            content = base64.b64decode(cursor, altchars=b"-_", validate=True)
            place = content[_TAG_BYTES:].decode()
        except ValueError:
            place, content = "", b""
        if not hmac.compare_digest(content[:_TAG_BYTES], self._tag(place, scope)):
            detail = "is not a cursor of this list with these filters; start without one"
            raise InvalidRequest(f"The cursor {detail}.", [FieldFault("/query/cursor", detail)])
        return place

    def _tag(self, place: str, scope: str) -> bytes:
        return hmac.digest(self.secret, f"{scope}\0{place}".encode(), hashlib.sha256)[:_TAG_BYTES]

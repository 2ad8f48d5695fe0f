"""Pages travel compressed, with or without a proxy that would see to it.

Whoever can make a browser ask for a page, and sees how long the compressed answer is, could guess a
secret in it bit by bit [1]_. The one secret in a page, the token of its forms, therefore looks
different in each (`setwise.service.sign_in.sessions`).

.. [1] Y. Gluck, N. Harris and A. Prado, "BREACH: Reviving the CRIME Attack", Black Hat USA 2013.
"""

import gzip

from fastapi import Request, Response

LEAST_BYTES = 1_000
"""What is shorter travels in one packet anyway."""

_LEVEL = 5  # more takes twice the time for some percent
_KINDS = ("text/", "application/json", "application/problem+json", "image/svg+xml")


def compressed(request: Request, response: Response) -> Response:
    """Compress an answer, in place, if it is worth it and the browser can read it."""
    body = getattr(response, "body", b"")  # answers that stream have none
    if len(body) < LEAST_BYTES or not response.headers.get("Content-Type", "").startswith(_KINDS):
        return response
    response.headers.add_vary_header("Accept-Encoding")
    if _reads_gzip(request.headers.get("Accept-Encoding", "")):
        response.body = gzip.compress(body, _LEVEL, mtime=0)
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Content-Length"] = str(len(response.body))
    return response


def _reads_gzip(accepted: str) -> bool:
    """Tell whether a header ``Accept-Encoding`` names gzip, and not only to refuse it.

    >>> [_reads_gzip(each) for each in ("gzip, br", "br", "br;q=1.0, GZIP;q=0.5", "gzip;q=0", "")]
    [True, False, True, False, False]
    """
    for part in accepted.lower().split(","):
        name, _, parameter = part.partition(";")
        if name.strip() == "gzip":
            weight = parameter.partition("=")[2].strip()
            return not weight or weight.strip("0.") != ""
    return False

"""A port that stays ours while nobody listens there."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_port() -> Iterator[int]:
    """Give a port of this machine where a server may listen, stop, and listen again.

    Until the end the system gives it to nobody who asks for any port: neither to a server of
    another test nor to a caller, who would even reach itself by calling the port that it calls
    from. A socket that is bound and does not listen is in the way of those alone; whoever asks for
    this very port and reuses addresses, as servers do, gets it.
    """
    with socket.socket() as holding:
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holding.bind(("127.0.0.1", 0))
        port: int = holding.getsockname()[1]
        yield port

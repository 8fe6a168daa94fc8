"""Free TCP ports on 127.0.0.1."""

import random
import socket

#: Below the range from which Linux takes ports for outgoing connections, so that a port chosen
#: now is still free in a second, and the next time the same data is started.
_RANGE = range(20_000, 32_000)
#: In the log of a server whose port was taken between our look at it and its start.
TAKEN = ("Address already in use", "could not create any TCP/IP sockets")
#: Given out by this process: servers that are prepared side by side must not get the same.
_given: set[int] = set()


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen there now.

    ``SO_REUSEADDR`` as servers set it: connections that are still closing do not count.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port(preferred: int | None = None) -> int:
    """The preferred port if it is free, else a random free one.

    Random rather than counted up: two stacks that start together seldom choose the same. It can
    still be taken before the server listens (``TAKEN``): choose again then.
    """
    if preferred is not None and port_is_free(preferred):
        return preferred
    for port in random.sample(_RANGE, k=200):
        if port not in _given and port_is_free(port):
            _given.add(port)
            return port
    raise OSError("no free TCP port found on 127.0.0.1 between 20000 and 32000")

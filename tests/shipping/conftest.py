"""A store of its own and slots on it, as the tests of crashes have them."""

from tests.support.crash_servers import receive, source, source_server, store, store_server

__all__ = ["receive", "source", "source_server", "store", "store_server"]

"""Servers that may be crashed, apart from those of all other tests."""

import pytest

from tests.support.crash_servers import receive as receive
from tests.support.crash_servers import source as source
from tests.support.crash_servers import source_server as source_server
from tests.support.crash_servers import store as store
from tests.support.crash_servers import store_server as store_server


@pytest.fixture(params=["walsender", pytest.param("sql", marks=pytest.mark.long)])
def interface(request: pytest.FixtureRequest) -> str:
    """Return each way to read a slot in turn, for ``receive(source, interface=interface)``."""
    return str(request.param)

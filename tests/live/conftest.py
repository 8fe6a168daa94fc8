"""A fed store and a signed-in session, for tests of sockets."""

from tests.support.fed_store import cookie as cookie
from tests.support.fed_store import feeder as feeder
from tests.support.fed_store import quiet_feeder as quiet_feeder

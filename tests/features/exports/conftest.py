"""The record that is exported."""

from tests.support.exported_history import history as history

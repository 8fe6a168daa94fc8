"""A small record that job processes can read, and the folder they write to."""

from pathlib import Path

import pytest

from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert


@pytest.fixture
def history(transactional_db, settings, tmp_path: Path) -> History:
    """Three transactions of orders, committed: a job process sees them."""
    settings.DATA_DIR = tmp_path
    make_partitions()
    made = History()
    key = str(made.orders.relation_id)
    made.commit(insert(1), insert(2), relations={key: [2, 0, 0, 0]})
    made.commit(insert(3), actor="alice")
    update = {"op": "U", "new": {"id": "3", "status": "paid", "note": "x"}}
    made.commit(update, actor="bob", relations={key: [0, 1, 0, 0]})
    return made

"""Clients of a Spark elsewhere, whose machines have the code that a client gives them."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.history_rows import History, insert

#: Run by a client of its own: in one process there is one kind of session.
_READ = """
import json, sys
import pyarrow as pa
from replview.spark.sessions import session

spark = session(sys.argv[1])
told = spark.read.format("replview").option("dsn", sys.argv[2])
typed = told.option("relation", "public.orders").load().where("_change_type <> 'delete'")

def where(batches):
    import replview.spark
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"file": [replview.spark.__file__]})

rows = [row.asDict() for row in typed.select("id", "status", "_change_type", "_actor").collect()]
[code] = spark.range(0, 1, 1, 1).mapInArrow(where, "file string").collect()
print(json.dumps({"rows": rows, "records": told.load().count(), "code": code[0]}))
spark.stop()
"""


@pytest.fixture
def history(transactional_db) -> History:
    """Three transactions of orders, committed: another process sees them."""
    from replview.store.retention.tidy import make_partitions

    make_partitions()
    made = History()
    key = str(made.orders.relation_id)
    made.commit(insert(1), insert(2), relations={key: [2, 0, 0, 0]})
    paid = {"op": "U", "new": {"id": "1", "status": "paid", "note": "x"}}
    made.commit(paid, actor="bob", relations={key: [0, 1, 0, 0]})
    gone = {"op": "D", "old": {"id": "2"}, "old_kind": "K"}
    made.commit(gone, actor="alice", relations={key: [0, 0, 1, 0]})
    return made


def client(code: str, *words: str, environment: Mapping[str, str] = os.environ) -> Any:
    """Run a client's script; return what it prints last."""
    command = [sys.executable, "-c", code, *words]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads(ran.stdout.splitlines()[-1])


def reads_the_history(url: str, dsn: str, environment: Mapping[str, str] = os.environ) -> None:
    """Read the fixture's history there, with code that came from here."""
    read = client(_READ, url, dsn, environment=environment)
    assert "replview-spark.zip" in read["code"]
    assert read["records"] == 4
    kinds = [(row["id"], row["status"], row["_change_type"], row["_actor"]) for row in read["rows"]]
    assert kinds == [
        ("1", "new", "insert", None), ("2", "new", "insert", None),
        ("1", "paid", "update_postimage", "bob"),
    ]  # fmt: skip

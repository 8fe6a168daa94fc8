"""An export is of exactly the transactions that the page's filter shows."""

import datetime as dt
import hashlib
import json
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from django.db import connection
from psycopg import sql

from replview.exports.asking import read_wish
from replview.exports.policy import Refused
from replview.spark.reading import connect
from replview.spark.slices import Slice
from replview.spark.writing.exporting import export
from replview.spark.writing.planning import transactions_of
from replview.spark.writing.targets import Target
from replview.store.browsing_sql import conditions_of
from replview.store.connecting import store_conninfo
from replview.store.transaction_filter import TransactionFilter
from tests.store.history_rows import WHEN, History

#: Words of a filter, and which of the history's transactions pass.
FILTERS = [
    ({"q": "urgent"}, [3, 4]),
    ({"q": "URGENT 100%"}, [3]),
    ({"q": "urgent_100"}, []),
    ({"q": "alice"}, [2]),
    ({"q": "public.ord"}, [1, 2, 3]),
    ({"id": "order-7"}, [3]),
    ({"id": "702"}, [2]),
    ({"origin": "elsewhere"}, [2]),
    ({"origin": "-"}, [1, 3, 4]),
    ({"states": "message"}, [4]),
    ({"states": "committed,snapshot"}, [1, 2, 3]),
    ({"min_changes": "2"}, [1]),
    ({"min_bytes": "5000"}, [3]),
    ({"prepared_min": "30"}, [3]),
    ({"prepared_min": "31"}, []),
    ({"actor": "?"}, [1, 4]),
    ({"q": "urgent", "tables": "public.orders", "ops": "U", "actor": "bob"}, [3]),
]


@pytest.fixture
def told(history: History) -> History:
    """Of an origin, of two phases, of a message alone, and one that came to nothing."""
    rows = {str(history.orders.relation_id): [0, 1, 0, 0]}
    connection.cursor().execute(
        "UPDATE transaction SET origin = CASE actor WHEN 'alice' THEN 'elsewhere' END;"
        "UPDATE transaction SET size_bytes = 5000, gid = 'order-7', prepared_at = %s"
        " WHERE actor = 'bob';"
        "UPDATE change SET new = jsonb_set(new, '{note}', '\"Urgent 100%%\"') WHERE op = 'U'",
        [WHEN - dt.timedelta(seconds=30)],
    )
    said = {"op": "M", "new": {"prefix": "app", "content": "an urgent call", "transactional": True}}
    history.commit(said, state="message")
    history.commit({"op": "U", "new": {"id": "1"}}, state="aborted", actor="bob", relations=rows)
    return history


def on_the_page(words: dict[str, str]) -> list[int]:
    found = conditions_of(TransactionFilter.from_words(words))
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT commit_seq FROM transaction t WHERE commit_seq IS NOT NULL AND {found.row_sql}"
            " ORDER BY 1",
            found.values,
        )
        return [row[0] for row in cursor.fetchall()]


def in_the_export(part: Slice) -> list[int]:
    with connect(store_conninfo()) as store:
        query = sql.SQL("SELECT t.commit_seq FROM transaction t WHERE {} ORDER BY 1")
        return [row[0] for row in store.execute(query.format(transactions_of(store, part)))]


def test_every_filter_of_the_page_narrows_an_export(told: History) -> None:
    for words, expected in FILTERS:
        wish = read_wish(told.slot, words)
        assert in_the_export(wish.slice) == on_the_page(words) == expected, words
        assert Slice.from_json(json.loads(json.dumps(wish.slice.to_json()))) == wish.slice
        # What was asked for can be asked for again.
        assert read_wish(told.slot, wish.words).slice == wish.slice


def test_what_is_asked_of_rows_or_of_what_has_no_place_is_refused(told: History) -> None:
    with pytest.raises(Refused, match="by a condition on values: it holds all that its trans"):
        read_wish(told.slot, {"where": "id = 1"})
    for strict in (True, False):
        with pytest.raises(Refused, match="no export is of transactions in the state aborted"):
            read_wish(told.slot, {"states": "committed,aborted"}, strict=strict)


def test_the_same_narrow_slice_gives_the_same_files_and_says_by_what(
    told: History, tmp_path: Path
) -> None:
    part = read_wish(told.slot, {"q": "urgent", "states": "committed"}).slice
    written = []
    for name in ("one", "other"):
        export(part, Target.of(str(tmp_path / name)), dsn=store_conninfo())
        files = [path for path in sorted((tmp_path / name).rglob("*")) if path.is_file()]
        written.append([hashlib.sha256(path.read_bytes()).hexdigest() for path in files])
    assert written[0] == written[1]

    folder = tmp_path / "one" / "shop" / "replview-1"
    rows = ds.dataset(folder / "public.orders", format="parquet", partitioning="hive").to_table()
    assert rows["note"].to_pylist() == ["Urgent 100%"]
    manifest = json.loads((folder / "_manifest.json").read_text())
    assert manifest["transactions"] == 1
    assert manifest["slice"]["narrowed"] == {"states": ["committed"], "text": "urgent"}

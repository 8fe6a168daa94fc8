"""A transaction's line: what it says of each state, and that nothing of a source is markup."""

import datetime as dt
import re
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.utils.html import escape

from replview.health.open_transactions import Touched
from replview.store.read.changes.records import transaction_json
from replview.store.read.rows import TransactionRow
from replview.ui.changes.transaction_columns import COLUMNS, ONE_SLOT_COLUMNS
from replview.ui.changes.transaction_lines import TransactionLine

HOSTILE = "\"><img src=x onerror=1>'"
NOW = dt.datetime(2026, 3, 1, 7, 57, 11, tzinfo=dt.UTC)


def line(*, tables: list[Touched] | None = None, **told: Any) -> TransactionLine:
    values: dict[str, Any] = {
        "id": 7, "incarnation_id": 1, "commit_seq": 3, "xid": 700, "gid": None,
        "state": "committed", "streamed": False, "first_lsn": None, "commit_lsn": "0/10",
        "end_lsn": None, "commit_time": NOW, "prepared_at": None, "ended_at": None,
        "origin": None, "actor": None, "actor_grade": None, "context": None, "actors": None,
        "inserts": 2,
        "updates": 0, "deletes": 0, "truncates": 0, "messages": 0, "size_bytes": 2048,
        "relations": {}, "aborted_changes": 0, "received_at": NOW, "stored_at": NOW,
    }  # fmt: skip
    shown = {name: told.pop(name) for name in ("prefix", "chosen", "slot") if name in told}
    row = TransactionRow(**{**values, **told})
    return TransactionLine(
        row=row, incarnation=1, tables=tables or [], **{"slot": "shop/replview", **shown}
    )


def html_of(line: TransactionLine, *, several: bool = False) -> str:
    columns = COLUMNS if several else ONE_SLOT_COLUMNS
    return render_to_string("transactions/_row.html", {"line": line, "columns": columns})


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_every_name_of_a_source_is_escaped() -> None:
    one = line(
        gid=HOSTILE, origin=HOSTILE, actor=HOSTILE, actor_grade="claimed", slot=HOSTILE,
        tables=[Touched(HOSTILE, HOSTILE, [2, 0, 0, 0])],
    )  # fmt: skip
    one.more_tables = [Touched("public", HOSTILE, [1, 0, 0, 0])]
    message = line(messages=1, prefix=HOSTILE, inserts=0)

    for html in (html_of(each, several=True) for each in (one, message)):
        assert "<img" not in html
        # Nor is an attribute left: what would end its quotes is written as an entity.
        assert '"><' not in re.sub(r'<[^<>"]*(?:"[^"]*"[^<>"]*)*>', "", html)


@pytest.mark.parametrize(
    ("told", "classes", "said"),
    [
        ({}, "", "no published change unknown 2 2 kB"),
        ({"state": "skipped"}, "", "left out by decision"),
        ({"state": "aborted", "ended_at": NOW}, ' class="no-longer"', "aborted"),
        ({"state": "streaming", "commit_time": None}, ' class="open-row"', "streaming"),
        ({"messages": 1, "prefix": "app"}, "", "message app message only"),
        ({"chosen": True}, ' class="selected"', "committed"),
    ],
)
def test_a_line_says_what_became_of_it(told: dict[str, Any], classes: str, said: str) -> None:
    html = html_of(line(**told))

    assert html.startswith(f'<tr{classes} data-tx="7">')
    assert said in words(html).replace("\N{NO-BREAK SPACE}", " ")


def test_who_else_has_a_part_is_named_for_everybody() -> None:
    parts = [{"seq": 0, "actor": None, "grade": None},
             {"seq": 2, "actor": HOSTILE, "grade": "perhaps"},
             {"seq": 3, "actor": "bob", "grade": "claimed"}]  # fmt: skip
    html = html_of(line(actor="bob", actor_grade="claimed", actors=parts))

    named = escape(f"{HOSTILE} (perhaps), unknown")
    assert f'data-tip="{named}">+2<span class="visually-hidden"> more: {named}</span>' in html
    assert "<img" not in html


def test_the_slot_is_named_where_there_are_several() -> None:
    assert "shop/replview" in html_of(line(), several=True)
    assert "shop/replview" not in html_of(line())


def test_changes_that_count_for_nothing_are_struck_out() -> None:
    html = html_of(line(state="rolled back", ended_at=NOW))

    assert "<s>2</s>" in html
    assert 'aria-current="true"' not in html


def test_a_row_has_a_cell_for_each_head() -> None:
    heads = render_to_string("ui/columns/_heads.html", {"columns": COLUMNS})
    classes = re.findall(r'<th class="([^"]*)"', heads)

    assert classes == [column.head_classes for column in COLUMNS]
    cells = re.findall(r'<td class="([^"]*)"', html_of(line(), several=True))
    assert cells == [column.classes for column in COLUMNS]


def test_a_column_names_the_field_of_the_api_with_its_value() -> None:
    record = transaction_json(line().row, {}, "shop/replview", 1)

    assert {column.api_field for column in COLUMNS} <= record.keys()

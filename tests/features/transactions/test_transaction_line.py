"""A transaction's line: what it says of each state, and that nothing of a source is markup."""

import re
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.utils.html import escape

from replview.health.open_transactions import Touched
from replview.ui.changes.transaction_columns import (
    LIST_COLUMNS,
    LIVE_COLUMNS,
    ONE_SLOT_COLUMNS,
    live_cells,
)
from replview.ui.changes.transaction_lines import TransactionLine
from tests.support.transaction_line import NOW, line

HOSTILE = "\"><img src=x onerror=1>'"


def html_of(line: TransactionLine, *, several: bool = False) -> str:
    columns = LIST_COLUMNS if several else ONE_SLOT_COLUMNS
    page = {"lines": [line], "columns": columns}
    [body] = re.findall(r"<tbody>(.*)</tbody>", _table(page), re.DOTALL)
    return body


def _table(page: dict[str, Any]) -> str:
    return render_to_string("transactions/_table.html", {"page": page})


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_every_name_of_a_source_is_escaped() -> None:
    one = line(
        gid=HOSTILE, origin=HOSTILE, actor=HOSTILE, actor_grade="claimed", slot=HOSTILE,
        tables=[Touched(HOSTILE, HOSTILE, [2, 0, 0, 0])],
    )  # fmt: skip
    one.more_tables = [Touched("public", HOSTILE, [1, 0, 0, 0])]
    message = line(messages=1, prefix=HOSTILE, inserts=0)

    rows = [html_of(each, several=True) for each in (one, message)]
    for html in [*rows, live_cells(one), live_cells(message)]:
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

    assert html.lstrip().startswith(f'<tr{classes} data-tx="7">')
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
    heads = render_to_string("ui/columns/_heads.html", {"columns": LIST_COLUMNS})
    classes = re.findall(r'<th class="([^"]*)"', heads)

    assert classes == [column.head_classes for column in LIST_COLUMNS]
    cells = re.findall(r'<td class="([^"]*)"', html_of(line(), several=True))
    assert cells == [column.classes for column in LIST_COLUMNS]


def test_a_row_of_the_live_page_has_a_cell_for_each_head() -> None:
    tables = [Touched("public", "orders", [3, 1, 0, 0]), Touched("eu", "stock", [0, 0, 1, 0])]
    html = live_cells(line(origin="eu", tables=tables))

    context = {"columns": LIVE_COLUMNS, "role": "columnheader"}
    heads = render_to_string("ui/columns/_span_heads.html", context)
    classes = re.findall(r'<span class="([^"]*)" role="columnheader"', heads)
    assert classes == [column.head_classes for column in LIVE_COLUMNS]
    assert re.findall(r'<span class="([^"]*)" role="gridcell"', html) == [
        column.classes for column in LIVE_COLUMNS
    ]
    assert 'data-words="orders: 3 inserts, 1 update"><code class="cut">orders</code>' in html
    assert words(html).startswith("700 committed from eu orders I insert 3 U update 1 eu.stock")


def test_a_message_of_the_live_page_says_its_size_unless_it_is_withheld() -> None:
    message = line(messages=2, prefix="app", inserts=0)
    hidden = line(messages=2, prefix="app", inserts=0, size_withheld=True)

    shown = words(live_cells(message)).replace("\N{NO-BREAK SPACE}", " ")
    assert "message 2 app message only, 2 kB unknown" in shown
    assert "2 kB" not in live_cells(hidden).replace("\N{NO-BREAK SPACE}", " ")
    assert words(live_cells(hidden)).endswith("withheld")

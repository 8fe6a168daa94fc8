"""A browser's queue stays small, and every transaction left out of it is named."""

from typing import Any

from replview.live.summaries import Summary
from replview.live.watcher import Mailbox


def rows(first: int, last: int) -> list[Summary]:
    row: Any = None
    return [
        Summary(row=row, names={}, data={"seq": seq, "placed": True}, line=row)
        for seq in range(first, last + 1)
    ]


def test_the_oldest_are_folded_and_named() -> None:
    mailbox = Mailbox(rows_limit=10)
    mailbox.put_rows(rows(1, 25))
    batch = mailbox.take(rows=100)

    assert [row.data["seq"] for row in batch["rows"]] == list(range(16, 26))
    assert batch["folded"] == {"from": 1, "to": 15, "count": 15, "exact": True}


def test_folding_goes_on_as_one_range() -> None:
    mailbox = Mailbox(rows_limit=10)
    mailbox.put_rows(rows(1, 12))
    mailbox.skip(13, 500)
    mailbox.put_rows(rows(501, 505))
    batch = mailbox.take()

    assert batch["folded"] == {"from": 1, "to": 500, "count": 500, "exact": False}
    assert [row.data["seq"] for row in batch["rows"]] == list(range(501, 506))


def test_it_never_holds_more_than_its_limit() -> None:
    mailbox = Mailbox(rows_limit=10)
    for start in range(0, 100_000, 100):
        mailbox.put_rows(rows(start + 1, start + 100))

    assert len(mailbox) == 10


def test_the_cursor_never_runs_ahead_of_what_was_sent() -> None:
    mailbox = Mailbox()
    mailbox.put_rows(rows(1, 50))
    mailbox.put_latest(cursor={"incarnation": 1, "commit_seq": 50})
    first = mailbox.take(rows=30)
    second = mailbox.take(rows=30)

    assert first["cursor"]["commit_seq"] == 30
    assert second["cursor"]["commit_seq"] == 50
    assert mailbox.empty

"""Reads of the store that have a bar of their own, measured without their pages."""

from collections.abc import Callable, Iterator

from replview.access.visibility import reading_session
from tests.benchmarks.pages.draws import Draws
from tests.benchmarks.pages.measuring import Measured, read_cost

Read = Callable[[Draws, int], Measured]


def all_reads() -> Iterator[tuple[str, float, Read]]:
    """Name, bar in milliseconds of the database, what to do."""
    yield "row history with before images, the read", 50, _row_history
    yield "row history of a hot row, the read", 50, _hot_row_history
    yield "live: last 200 of history", 50, _hub


def _row_history(draws: Draws, count: int, *, hot: bool = False) -> Measured:
    from replview.store.read.row_history.history import row_history

    measured = Measured()
    rows = draws.rows(count, hot=hot)
    for number, row in enumerate(rows[:1] + rows):
        cost = read_cost(
            lambda row=row: row_history(reading_session(), draws.slot, row.relation_id, row.key)
        )  # type: ignore[misc]
        if number:
            measured.costs.append(cost)
    return measured


def _hot_row_history(draws: Draws, count: int) -> Measured:
    return _row_history(draws, count, hot=True)


def _hub(draws: Draws, count: int) -> Measured:
    from replview.store.read.history import committed_before

    incarnation = draws.slot.incarnation_id
    assert incarnation is not None
    measured = Measured()
    for _ in range(count):
        measured.costs.append(
            read_cost(lambda: committed_before(reading_session(), incarnation, None, 200))
        )
    return measured

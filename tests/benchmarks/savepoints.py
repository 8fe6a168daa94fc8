"""One streamed transaction of a million rows with savepoints: content, memory, and what one sees.

The in-flight page is read over HTTP all the while, as a browser would: how long does it show the
same figure?
"""

import re
import threading
import time
from dataclasses import dataclass, field

import httpx
import psycopg

from tests.benchmarks.bench_servers import INSERT, Bench, bench
from tests.benchmarks.processes import peak_rss_bytes
from tests.benchmarks.report import Result
from tests.benchmarks.stack import Stack, stack

SAVEPOINTS = 1_000
#: Every tenth is rolled back.
ROLLED_BACK_EVERY = 10
MEMORY_BAR_BYTES = 150_000_000
_LOOK_SECONDS = 0.2
_STORED_SECONDS = 300

# Each block with an EXCEPTION clause is a subtransaction.
_WORK = """
DO $$ BEGIN
    FOR i IN 0..{last} LOOP
        BEGIN
            {insert};
            IF i % {every} = 0 THEN RAISE EXCEPTION 'back to the savepoint'; END IF;
        EXCEPTION WHEN raise_exception THEN NULL;
        END;
    END LOOP;
END $$
"""
_SUM = "count(*), coalesce(sum(id), 0), coalesce(sum(customer::bigint * product), 0)"


@dataclass
class Watch:
    """The figures that the in-flight page showed, and the seconds between new ones."""

    running: Stack
    done: threading.Event = field(default_factory=threading.Event)
    #: Seconds between two different figures.
    gaps: list[float] = field(default_factory=list)
    #: Seconds a page took.
    answers: list[float] = field(default_factory=list)

    def look(self) -> None:
        """Note each change of the streaming transaction's figure until ``done`` is set."""
        shown, since = "", 0.0
        headers = {"cookie": self.running.cookie, "HX-Request": "true"}
        with httpx.Client(base_url=self.running.origin, headers=headers, timeout=20) as client:
            while not self.done.wait(_LOOK_SECONDS):
                began = time.monotonic()
                page = client.get("/in-flight/now/").raise_for_status().text
                now = time.monotonic()
                self.answers.append(now - began)
                figure = _figure(page)
                if figure and figure != shown:
                    if shown:
                        self.gaps.append(now - since)
                    shown, since = figure, now


def _figure(page: str) -> str:
    """The number of changes that the page shows of the streaming transaction; empty without."""
    streaming = page.partition('id="streaming-title"')[2].partition("</section>")[0]
    found = re.search(r'<td class="col-changes num">([\d,.\s]+)</td>', streaming)
    return found[1].strip() if found else ""


def with_savepoints(*, quick: bool) -> list[Result]:
    """A transaction of 1,000,000 rows under 1,000 savepoints, a tenth of them rolled back."""
    rows = 100 if quick else 1_000
    with bench() as servers, servers.slots("live"), stack(servers, "live") as running:
        watch = Watch(running)
        looking = threading.Thread(target=watch.look)
        looking.start()
        try:
            seconds = _run(servers, running, rows)
        finally:
            watch.done.set()
            looking.join()
        peak_bytes = peak_rss_bytes(running.processes["receivers"])
        same = _same(servers)
    return _results(rows * SAVEPOINTS, seconds, peak_bytes, same, watch)


def _run(servers: Bench, running: Stack, rows: int) -> float:
    """Do it on the source; seconds until all of it is stored."""
    first, last = f"i * {rows} + 1", f"(i + 1) * {rows}"
    insert = INSERT.format(first=first, last=last)
    before = running.stored_transactions()
    began = time.monotonic()
    servers.on_source(_WORK.format(last=SAVEPOINTS - 1, insert=insert, every=ROLLED_BACK_EVERY))
    while running.stored_transactions() <= before:
        if time.monotonic() - began > _STORED_SECONDS:
            break
        time.sleep(_LOOK_SECONDS)
    return time.monotonic() - began


def _same(servers: Bench) -> bool:
    """Return True if the committed rows in the store are those of the source's table."""
    with psycopg.connect(servers.source.dsn("bench"), autocommit=True) as connection:
        there = connection.execute(f"SELECT {_SUM} FROM measured").fetchone()
    here = servers.store_row(
        f"""
        SELECT {_SUM} FROM (
            SELECT (c.new->>'id')::bigint AS id, (c.new->>'customer')::int AS customer,
                   (c.new->>'product')::int AS product
            FROM change c JOIN transaction t ON t.id = c.transaction_id
            WHERE t.state = 'committed' AND NOT EXISTS (
                SELECT FROM aborted_subtransaction a
                WHERE a.transaction_id = c.transaction_id AND a.subxid = c.subxid)
        ) AS counting
        """
    )
    return there is not None and there == here


def _results(rows: int, seconds: float, peak_bytes: int, same: bool, watch: Watch) -> list[Result]:
    gone = SAVEPOINTS // ROLLED_BACK_EVERY
    what = f"one streamed transaction of {rows:,} rows, {SAVEPOINTS:,} savepoints, {gone} undone"
    content = "content equals the source's" if same else "content differs from the source's"
    memory = Result.at_most(
        f"{what}: peak memory of the receivers' worker", peak_bytes / 1e6, MEMORY_BAR_BYTES / 1e6,
        detail=f"{content}, {seconds:.0f} s in all", unit=" MB",
    )  # fmt: skip
    slowest = max(watch.gaps, default=99.0)
    pages = Result(
        f"{what}: longest time the in-flight page shows the same figure",
        f"{slowest:.2f} s ({len(watch.gaps)} updates; a page takes at most "
        f"{max(watch.answers, default=0) * 1000:.0f} ms)",
        "≤ 1 s",
        slowest <= 1.0,
    )
    return [memory if same else memory.spoilt("not the source's rows"), pages]

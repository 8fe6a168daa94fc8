"""This module is the command line: ``--prepare`` creates the shop; without it the shop runs."""

import argparse
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Sequence

import psycopg

from replview.demo.workload import two_phase
from replview.demo.workload.runner import Workload
from replview.demo.workload.schema import NotOurDatabase, is_prepared
from replview.demo.workload.seed import prepare
from replview.demo.workload.session import Backoff, Outage, connect, minute_line, one_line

SOURCE_URL = "REPLVIEW_DEMO_SOURCE_URL"
SIGNALS = (signal.SIGTERM, signal.SIGINT)
MINUTE = 60.0

#: Seconds that a workload that was just killed may still hold its lock.
PREDECESSOR_SECONDS = 5.0

logger = logging.getLogger("replview.demo.workload")


class CannotRun(Exception):
    """The reason why the workload cannot run on this database, in one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Create or run the shop, and return the exit status."""
    options = _parse(arguments)
    logging.basicConfig(format="workload: %(message)s", level=logging.INFO, stream=sys.stderr)
    dsn = os.environ.get(SOURCE_URL)
    if not dsn:
        logger.error("%s is not set: give it the connection URL of the demo's source", SOURCE_URL)
        return 2
    try:
        return _prepare(dsn, options) if options.prepare else _run(dsn, options)
    except (CannotRun, NotOurDatabase, psycopg.Error) as error:
        logger.error("%s", one_line(error))
        return 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m replview.demo.workload",
        description=f"A small shop at work on the database that {SOURCE_URL} names.",
    )
    parser.add_argument("--prepare", action="store_true", help="make the shop, then exit")
    parser.add_argument("--rate", type=_rate, default=20.0, help="transactions a second (20)")
    parser.add_argument("--seed", type=int, default=None, help="repeat the same random choices")
    calm = "only short transactions at first: creating a slot waits for open ones (10)"
    parser.add_argument("--calm-seconds", type=float, default=10.0, help=calm)
    return parser.parse_args(arguments)


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 < rate <= 10_000:
        raise argparse.ArgumentTypeError("must be more than 0 and at most 10000")
    return rate


def _prepare(dsn: str, options: argparse.Namespace) -> int:
    with connect(dsn, "shop prepare") as conn:
        created = prepare(conn, seed=1 if options.seed is None else options.seed)
    logger.info("the shop is made" if created else "the shop was there already")
    return 0


def _run(dsn: str, options: argparse.Namespace) -> int:
    """Run until stopped. The signals are blocked and waited for, so that no handler interrupts."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    if not _wait_until_ready(dsn):
        return 0
    calm = options.calm_seconds
    workload = Workload(dsn, rate=options.rate, seed=options.seed, calm_seconds=calm)
    workload.start()
    logger.info("the shop is open: about %g transactions a second", options.rate)
    _report_until_told_to_stop(workload)
    if not workload.stop():
        logger.warning("some sessions did not end in time; the server rolls them back")
    logger.info("the shop is closed")
    return 0


def _wait_until_ready(dsn: str) -> bool:
    """Wait for the source and clean up after an earlier run; return False when stopped."""
    outage, backoff = Outage(), Backoff(random.Random())
    while True:
        started_at = time.monotonic()
        try:
            with connect(dsn, "shop start") as conn:
                outage.over(started_at)
                _clear_up(conn)
                return True
        except psycopg.OperationalError as error:
            outage.failed("shop start", error, started_at)
        if signal.sigtimedwait(SIGNALS, backoff.next_seconds()) is not None:
            return False


def _clear_up(conn: psycopg.Connection) -> None:
    if not is_prepared(conn):
        raise CannotRun("there is no shop in this database: run with --prepare first")
    give_up_at = time.monotonic() + PREDECESSOR_SECONDS
    while (left_over := two_phase.resolve_left_over_if_alone(conn)) is None:
        if time.monotonic() > give_up_at:
            raise CannotRun("another demo workload is running on this database")
        time.sleep(0.2)
    if left_over:
        logger.info("rolled back %d prepared transactions of an earlier run", left_over)


def _report_until_told_to_stop(workload: Workload) -> None:
    former_counts, started_at = workload.tally.counts(), time.monotonic()
    while signal.sigtimedwait(SIGNALS, MINUTE) is None:
        counts, now = workload.tally.counts(), time.monotonic()
        logger.info("%s", minute_line(counts - former_counts, now - started_at))
        former_counts, started_at = counts, now


if __name__ == "__main__":
    sys.exit(main())

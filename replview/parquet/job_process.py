"""A job in a process of its own: a file describes it, signals stop it, and it answers in JSON.

Its log is its standard error, without the text of unexpected errors, which may quote a value.
"""

import logging
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import orjson
import psycopg

from replview.parquet.writing.exporting import lost_store
from replview.text.problem import CodedProblem


def begin(arguments: list[str] | None) -> tuple[Path, threading.Event]:
    """Return the path of the file that describes the job, and the event that a stop signal sets."""
    [path] = sys.argv[1:] if arguments is None else arguments
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    stopped = threading.Event()
    stop_on_signals(stopped)
    return Path(path), stopped


def stop_on_signals(stopped: threading.Event) -> None:
    """Have SIGTERM and SIGINT set an event; call it again after Spark took SIGINT for itself."""
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: stopped.set())


def say(line: Mapping[str, object]) -> None:
    """Write one JSON line to the standard output."""
    sys.stdout.write(orjson.dumps(line).decode() + "\n")
    sys.stdout.flush()


def problem_of(
    error: Exception, log: logging.Logger, *, what: str, unexpected: str
) -> dict[str, str]:
    """Log the error that ended the job, and return its ``problem`` and ``remedy``.

    ``what`` names the job; ``unexpected`` is the remedy for an error of unknown cause.
    """
    if isinstance(error, psycopg.Error):
        store_problem = lost_store(error)
        store_problem.__cause__ = error
        error = store_problem
    if isinstance(error, CodedProblem):
        cause, remedy = error.cause, error.remedy
    else:
        cause, remedy = f"{what} failed unexpectedly ({type(error).__name__})", unexpected
        traceback = error.__traceback__
        while traceback is not None:
            code = traceback.tb_frame.f_code
            log.error("  in %s, line %s of %s", code.co_name, traceback.tb_lineno, code.co_filename)
            traceback = traceback.tb_next
    kind = f" ({type(error.__cause__).__name__})" if error.__cause__ is not None else ""
    log.error("%s%s: %s", cause, kind, remedy)
    return {"problem": cause, "remedy": remedy}

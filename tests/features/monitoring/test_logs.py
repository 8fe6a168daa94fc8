"""Log lines are JSON objects, and hold no values of rows."""

import json
import logging
import os
import subprocess
import sys

import psycopg
import pytest

from replview.runtime.logs import JSONFormatter, PlainFormatter, logging_settings

VALUE = "4111-1111-1111-1111"


def line_of(record: logging.LogRecord) -> dict:
    """The record as logged: one line, one object."""
    line = JSONFormatter().format(record)
    assert "\n" not in line
    return json.loads(line)


def test_a_line_is_an_object_with_slot_and_lsn(caplog) -> None:
    log = logging.getLogger("replview.test")
    with caplog.at_level("INFO", "replview.test"):
        log.info("slot %s:\ntaken", 7, extra={"slot": "shop/replview", "slot_id": 7, "lsn": "0/1"})

    told = line_of(caplog.records[-1])

    assert told.pop("time").endswith("Z")
    assert told == {
        "level": "INFO", "logger": "replview.test", "message": "slot 7:\ntaken",
        "slot": "shop/replview", "slot_id": 7, "lsn": "0/1",
    }  # fmt: skip


def test_an_error_is_told_without_its_text(source, caplog) -> None:
    log = logging.getLogger("replview.test")
    source.run(
        "CREATE TABLE cards (number text PRIMARY KEY)", f"INSERT INTO cards VALUES ('{VALUE}')"
    )
    # The server quotes the row.
    with source.connect() as session, pytest.raises(psycopg.Error, match=VALUE) as raised:
        session.execute(f"INSERT INTO cards VALUES ('{VALUE}')")
    log.error("storing failed", exc_info=raised.value)

    told = line_of(caplog.records[-1])

    assert VALUE not in json.dumps(told)
    assert told["error"] == "UniqueViolation"
    assert any("test_logs.py" in frame for frame in told["at"])
    # Nor in the plain form, which is the usual one; pytest's own handler has written it out.
    plain = PlainFormatter("%(message)s").format(caplog.records[-1])
    assert VALUE in (caplog.records[-1].exc_text or "")
    assert VALUE not in plain
    assert "psycopg.errors.UniqueViolation (SQLSTATE 23505)" in plain
    assert "test_logs.py" in plain


def test_a_failed_task_is_named_without_the_error_that_quotes_a_row() -> None:
    try:
        raise ValueError(f"invalid: {VALUE}")
    except ValueError as error:
        record = logging.LogRecord(
            "celery.app.trace", logging.ERROR, __file__, 1, "Task %(name)s: %(exc)s",
            ({"name": "replview.tidy_store", "id": "1", "exc": repr(error)},), sys.exc_info(),
        )  # fmt: skip
    record.data = {"name": "replview.tidy_store", "id": "1", "exc": VALUE}

    told = line_of(record)

    assert told["message"] == "Task replview.tidy_store[1] failed"
    assert VALUE not in json.dumps(told)
    assert VALUE not in PlainFormatter("%(message)s").format(record)


def test_an_error_that_is_behind_another_is_told_by_its_kind() -> None:
    quoted = f"invalid: {VALUE}\n2026 INFO root: all is " + "well"
    try:
        try:
            raise ValueError(quoted)
        except ValueError as error:
            raise RuntimeError(VALUE) from error
    except RuntimeError:
        record = logging.LogRecord("x", logging.ERROR, "", 1, "failed", (), sys.exc_info())

    told = PlainFormatter("%(message)s").format(record)

    assert VALUE not in told
    assert "all is well" not in told
    assert "builtins.RuntimeError\nthe error behind it:\n" in told
    assert told.endswith("builtins.ValueError")


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_library_writes_lines_of_its_own(form: str) -> None:
    loggers = logging_settings(form, "INFO")["loggers"]
    for name in ("django", "django.server", "uvicorn", "uvicorn.error"):
        assert loggers[name] == {"handlers": [], "propagate": True}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["json", pytest.param("text", marks=pytest.mark.long)])
def test_the_web_server_and_the_workers_log_in_one_form(form: str) -> None:
    code = (
        "import logging, uvicorn, replview.celery as c;"
        "uvicorn.Config('replview.asgi:application', access_log=False);"
        "import replview.asgi;"
        "c.app.log.setup(loglevel='INFO');"
        "[logging.getLogger(n).warning('said by ' + n, exc_info=ValueError('quoted')) for n in"
        " ('replview.x', 'uvicorn.error', 'celery.worker', 'django.request')];"
        "assert not logging.getLogger('uvicorn.access').hasHandlers()"
    )
    environment = {**os.environ, "REPLVIEW_LOG_FORMAT": form, "REPLVIEW_DATA": "/nonexistent"}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )

    lines = [line for line in ended.stderr.splitlines() if "said by" in line]
    assert len(lines) == 4, ended.stderr
    assert "quoted" not in ended.stderr
    for line in lines:
        told = json.loads(line)["level"] if form == "json" else line.split()[2]
        assert told == "WARNING"

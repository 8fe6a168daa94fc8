"""This module formats logs as plain lines, or as JSON lines (``REPLVIEW_LOG_FORMAT=json``).

An object has ``time`` (UTC), ``level``, ``logger``, ``message`` and, where the call gave them in
``extra``, ``slot``, ``source``, ``lsn`` and similar keys. Both forms show the kind of an error and
where it was raised, but not its text, because a database's error quotes the row. For the same
reason the message of a failed task is replaced: Celery's repeats the error.
"""

import copy
import datetime as dt
import json
import logging
import traceback
from typing import Any

from django.core.exceptions import (
    BadRequest,
    PermissionDenied,
    RequestAborted,
    SuspiciousOperation,
)
from django.http import Http404, UnreadablePostError

#: Names that a call may give in ``extra``.
CONTEXT = (
    "slot", "slot_id", "source", "source_id", "lsn", "xid", "epoch", "problem", "status_code",
)  # fmt: skip
#: Number of frames that are shown for each error, and number of errors in a chain.
_MAX_FRAMES, _MAX_CAUSES = 20, 5
_REFUSALS = (
    BadRequest, Http404, PermissionDenied, RequestAborted, SuspiciousOperation, UnreadablePostError
)  # fmt: skip
#: The logger of failed tasks, whose messages contain the error's text.
_TASK_LOGGER = "celery.app.trace"


class JSONFormatter(logging.Formatter):
    """A formatter that writes one JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line, with line feeds escaped."""
        created_at = dt.datetime.fromtimestamp(record.created, dt.UTC)
        entry: dict[str, Any] = {
            "time": created_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        for name in CONTEXT:
            if (value := getattr(record, name, None)) is not None:
                entry[name] = value if isinstance(value, str | int | float) else str(value)
        if record.exc_info and record.exc_info[0] is not None and not _is_refusal(record):
            kind, _, trace = record.exc_info
            entry["error"] = kind.__name__
            entry["at"] = [
                f"{frame.filename}:{frame.lineno} {frame.name}"
                for frame in traceback.extract_tb(trace)[-_MAX_FRAMES:]
            ]
        return json.dumps(entry)


class PlainFormatter(logging.Formatter):
    """A formatter that writes a line of text, and below it where an error was raised."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record without any error's text.

        The text may be in the message, or cached by another handler.
        """
        plain_record = copy.copy(record)
        plain_record.msg, plain_record.args, plain_record.exc_text = _message(record), None, None
        if _is_refusal(record):
            plain_record.exc_info = None
        return super().format(plain_record)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the message with control characters escaped.

        So no text from a request can begin a line of its own.
        """
        text = super().formatMessage(record)
        if text.isprintable():
            return text
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)

    def formatException(self, ei: Any) -> str:
        """Return the frames and kind of an error and of its causes."""
        error, entry = ei[1], list[str]()
        while error is not None and len(entry) < _MAX_CAUSES:
            frames = traceback.format_tb(error.__traceback__)[-_MAX_FRAMES:]
            state = getattr(error, "sqlstate", None)
            kind = f"{type(error).__module__}.{type(error).__qualname__}"
            entry.append("".join([*frames, kind, f" (SQLSTATE {state})" if state else ""]))
            context = None if error.__suppress_context__ else error.__context__
            error = error.__cause__ or context
        return "\nthe error behind it:\n".join(entry)


def _is_refusal(record: logging.LogRecord) -> bool:
    """Return whether a request was properly refused, so that frames of our code are no help."""
    return bool(record.exc_info) and isinstance(record.exc_info[1], _REFUSALS)  # type: ignore[index]


def _message(record: logging.LogRecord) -> str:
    """Return the message; that of a failed task without Celery's error text."""
    data = getattr(record, "data", None)
    if record.name == _TASK_LOGGER and record.exc_info and isinstance(data, dict):
        return f"Task {data.get('name')}[{data.get('id')}] failed"
    return record.getMessage() + _account(record)


def _account(record: logging.LogRecord) -> str:
    """Return which account a request was of that Django tells of, ready to follow its line."""
    request = getattr(record, "request", None)
    # As the session's middleware found it: nothing is read from the store here.
    user: Any = getattr(request, "_cached_user", None)
    if (token := getattr(request, "replview_token", None)) is not None:
        user = token.user
    return f", account {user.get_username()}" if getattr(user, "pk", None) else ""


def logging_settings(form: str, level: str) -> dict[str, Any]:
    """Return Django's LOGGING. With JSON, the ASGI server's own lines have the same form."""
    chosen = "json" if form == "json" else "plain"
    settings: dict[str, Any] = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "plain": {
                "()": "replview.runtime.logs.PlainFormatter",
                "format": "%(asctime)s %(levelname)s %(name)s: %(message)s",
            },
            "json": {"()": "replview.runtime.logs.JSONFormatter"},
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": chosen}},
        "root": {"handlers": ["stderr"], "level": level},
    }
    # At INFO Celery logs the start and end of every task: several lines a second.
    settings["loggers"] = {"celery": {"level": "INFO" if level == "DEBUG" else "WARNING"}}
    # Django and uvicorn set up handlers of their own, which would write in another form, and the
    # text of errors.
    names = ("django", "django.server", "uvicorn", "uvicorn.error")
    settings["loggers"] |= {name: {"handlers": [], "propagate": True} for name in names}
    # The access log stays off, as an address may name a row; its parent would switch it on.
    settings["loggers"]["uvicorn.access"] = {"handlers": [], "propagate": False}
    return settings

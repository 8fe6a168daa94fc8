"""Phrases for times in which changes of a table may not have been published to a slot."""

import datetime as dt

_OPERATIONS = {"I": "inserts", "U": "updates", "D": "deletes", "T": "truncates"}


def lapse_text(
    kind: str, operations: str, since: dt.datetime | None, until: dt.datetime | None
) -> str:
    """Return a phrase that completes "the table was"; ``kind`` is that of ``PublicationLapse``."""
    if until is None:
        when = f"after {_second(since)}" if since else "since the record began"
    else:
        when = f"from {_second(since)} to {_second(until)}" if since else f"until {_second(until)}"
    between = f"between {_second(since)} and {_second(until)}" if since and until else when
    match kind:
        case "unpublished":
            return f"{'not' if until else 'no longer'} published {when}"
        case "operations":
            names = ", ".join(_OPERATIONS[op] for op in operations)
            return f"published without {names} {when}"
        case "filter":
            return f"given another row filter {between}"
        case "partitions":
            return f"given or deprived of partitions with rows of their own {between}"
    return f"taken out of its publication and put back, or published otherwise, {between}"


def _second(at: dt.datetime | None) -> str:
    return "" if at is None else f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC"

"""Phrases for times in which changes of a table may not have been published to a slot."""

import datetime as dt

_OPERATIONS = {"I": "inserts", "U": "updates", "D": "deletes", "T": "truncates"}


def lapse_text(
    kind: str, operations: str, since: dt.datetime | None, until: dt.datetime | None
) -> str:
    """Return a phrase that completes "the table was"; ``kind`` is that of ``PublicationLapse``."""
    if until is None:
        time = f"after {_second(since)}" if since else "since the record began"
    else:
        time = f"from {_second(since)} to {_second(until)}" if since else f"until {_second(until)}"
    span = f"between {_second(since)} and {_second(until)}" if since and until else time
    match kind:
        case "unpublished":
            return f"{'not' if until else 'no longer'} published {time}"
        case "operations":
            names = ", ".join(_OPERATIONS[op] for op in operations)
            return f"published without {names} {time}"
        case "filter":
            return f"given another row filter {span}"
        case "partitions":
            return f"given or deprived of partitions with rows of their own {span}"
    return f"taken out of its publication and put back, or published otherwise, {span}"


def _second(moment: dt.datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC"

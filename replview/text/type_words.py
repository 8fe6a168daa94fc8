"""Types as people write them: ``varchar(40)`` for ``character varying(40)``."""

import re

_SHORT = (
    (re.compile(r"^character varying"), "varchar"),
    (re.compile(r"^character(\(\d+\))"), r"char\1"),
    (re.compile(r"^bit varying"), "varbit"),
    (re.compile(r"^(timestamp|time)(\(\d+\))? with time zone"), r"\1tz\2"),
    (re.compile(r"^(timestamp|time)(\(\d+\))? without time zone"), r"\1\2"),
)
#: Types made by the database's users have at least this oid.
FIRST_USER_OID = 16384


def short_type(name: str, *, qualified: bool = False) -> str:
    """PostgreSQL's own short spelling of what ``format_type()`` writes at length; ``qualified``
    keeps the schema ``public``, too.
    """
    for pattern, short in _SHORT:
        name, found = pattern.subn(short, name)
        if found:
            break
    return name if qualified else name.removeprefix("public.")

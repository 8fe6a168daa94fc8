"""The types of the values in a fleet file: each checks a TOML value and converts it.

A validator raises ``ValueError`` with what is allowed; ``faults`` has the words for Pydantic's own
errors.
"""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, PlainValidator

from replview.access.accounts import AccountProblem, read_patterns
from replview.catalog.naming import slot_name_fault
from replview.catalog.plan.new_slot import HEARTBEAT_BOUNDS
from replview.catalog.plan.slot_request import PLUGIN_OPTIONS
from replview.catalog.wal_budget import parse_budget
from replview.store.dsn import split_dsn
from replview.store.retention.policy import Keeping
from replview.store.retention.policy import check as check_keeping
from replview.text.sizes import parse_limit


def parse_text(value: object) -> str:
    """Return a text without surrounding spaces. Raises ``ValueError``."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError("it must be a text in quotes")
    return value.strip()


def parse_dsn(value: object) -> str:
    """Return a DSN as the store keeps it. Raises ``ValueError``, also for a password in it."""
    conninfo, password = split_dsn(parse_text(value))
    if password:
        raise ValueError(
            'a password stands in it: say where it is instead, password = { env = "NAME" } or '
            '{ file = "/run/secrets/name" }, or keep it in a service file'
        )
    return conninfo


def parse_password(value: object) -> str:
    """Return ``{ env = "NAME" }`` or ``{ file = "/path" }`` in the form of ``password_ref``."""
    hint = 'write { env = "NAME" } or { file = "/run/secrets/name" }: no secret stands in the file'
    match value:
        case {"env": str(name), **rest} if not rest:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError("env must be the name of an environment variable")
            return f"env:{name}"
        case {"file": str(path), **rest} if not rest:
            if not path.startswith("/"):
                raise ValueError("file must be an absolute path")
            return f"file:{path}"
    raise ValueError(f"it must say where the password is; {hint}")


def _unique(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _some(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names:
        raise ValueError("it must name at least one; leave the key out otherwise")
    return _unique(names)


def _pattern(pattern: str) -> str:
    if not all(pattern.split(".")):
        raise ValueError(f"{pattern!r} is no table: write schema.table, where * is anything")
    return pattern


def _column(column: str) -> str:
    if len(parts := column.split(".")) < 2 or not all(parts):
        raise ValueError(f"{column!r} is no column: write schema.table.column, where * is anything")
    return column


def _granted(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the patterns in the form that a grant stores: none for all tables."""
    try:
        return tuple(read_patterns(patterns))
    except AccountProblem as problem:
        raise ValueError(str(problem)) from None


def _slot_name(name: str) -> str:
    if fault := slot_name_fault(name):
        raise ValueError(fault)
    return name


def _budget(value: object) -> int | None:
    if not isinstance(value, str):
        raise ValueError('it must be a text such as "10GB"')
    return parse_budget(value)


def _heartbeat(value: object) -> int | None:
    shortest, longest = HEARTBEAT_BOUNDS
    if value is False or value == "none":
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not shortest <= value <= longest:
        raise ValueError(f"it must be a number of seconds from {shortest} to {longest}, or false")
    return value


def _keep_for(value: object) -> int | None:
    """Parse a number of days, for ``Slot.keep_for_days``; None keeps without limit."""
    if value in ("none", False):
        return None
    match = re.fullmatch(r"([0-9]{1,6})\s*(?:d|days?)?", str(value).strip(), re.ASCII)
    if match is None or isinstance(value, bool):
        raise ValueError('it must be a number of days such as 90 or "90d", or "none"')
    check_keeping(Keeping(int(match[1]), None))
    return int(match[1])


def _keep_at_most(value: object) -> int | None:
    """Parse a size into bytes, for ``Slot.keep_at_most_bytes``; None sets no limit."""
    if value is False:
        return None
    if not isinstance(value, str):
        raise ValueError('it must be a text such as "200GB", or "none"')
    check_keeping(Keeping(None, size := parse_limit(value)))
    return size


def _options(value: object) -> dict[str, str]:
    allowed = "; ".join(f"{key} = {' or '.join(values)}" for key, values in PLUGIN_OPTIONS.items())
    if not isinstance(value, Mapping):
        raise ValueError(f'it must be a table such as {{ streaming = "parallel" }}: {allowed}')
    options = {}
    for name, option_value in value.items():
        text = (
            ("on" if option_value else "off")
            if isinstance(option_value, bool)
            else str(option_value)
        )
        if text not in PLUGIN_OPTIONS.get(name, ()):
            raise ValueError(f"{name} = {option_value!r} is not one of: {allowed}")
        options[name] = text
    return options


Text = Annotated[str, PlainValidator(parse_text)]
DSN = Annotated[str, PlainValidator(parse_dsn)]
#: ``env:NAME`` or ``file:/path``.
PasswordRef = Annotated[str, PlainValidator(parse_password)]
SlotName = Annotated[Text, AfterValidator(_slot_name)]

_Name = Annotated[str, Field(min_length=1)]
_Pattern = Annotated[_Name, AfterValidator(_pattern)]
_Column = Annotated[_Name, AfterValidator(_column)]
Names = Annotated[tuple[_Name, ...], AfterValidator(_some)]
Patterns = Annotated[tuple[_Pattern, ...], AfterValidator(_some)]
ExceptPatterns = Annotated[tuple[_Pattern, ...], AfterValidator(_unique)]
GrantPatterns = Annotated[Patterns, AfterValidator(_granted)]
Columns = Annotated[tuple[_Column, ...], AfterValidator(_unique)]

#: Bytes; None: no budget.
Budget = Annotated[int | None, PlainValidator(_budget)]
#: Seconds; None: no heartbeat.
Heartbeat = Annotated[int | None, PlainValidator(_heartbeat)]
Days = Annotated[int | None, PlainValidator(_keep_for)]
Size = Annotated[int | None, PlainValidator(_keep_at_most)]
Options = Annotated[dict[str, str], PlainValidator(_options)]

"""The keys of a fleet file, each with the function that checks and converts its value."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from replview.access.accounts import AccountProblem, read_patterns
from replview.catalog.naming import slot_name_fault
from replview.catalog.plan.new_slot import HEARTBEAT_BOUNDS
from replview.catalog.plan.slot_request import PLUGIN_OPTIONS
from replview.catalog.wal_budget import DATABASE, RECORD, parse_budget, parse_size
from replview.management.fleet.alert_overrides import take_alerts
from replview.store.retention.policy import Keeping
from replview.store.retention.policy import check as check_keeping

#: Converts a TOML value into the value to use. Raises ``ValueError`` that says what is allowed.
Take = Callable[[Any], Any]


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError("it must be a text in quotes")
    return value.strip()


def _yes_or_no(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("it must be true or false")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
        raise ValueError('it must be a list of texts, such as ["public.orders"]')
    return tuple(dict.fromkeys(value))


def _names(value: object) -> tuple[str, ...]:
    if not (names := _texts(value)):
        raise ValueError("it must name at least one; leave the key out otherwise")
    return names


def _patterns(value: object) -> tuple[str, ...]:
    for pattern in (patterns := _names(value)):
        if not all(pattern.split(".")):
            raise ValueError(f"{pattern!r} is no table: write schema.table, where * is anything")
    return patterns


def _dotted(value: object) -> tuple[str, ...]:
    for pattern in (patterns := _patterns(value)):
        if "." not in pattern and pattern != "*":
            raise ValueError(f"{pattern!r} is no table: write schema.table, as in public.*")
    try:
        return tuple(read_patterns(patterns))  # the form that a grant stores
    except AccountProblem as problem:
        raise ValueError(str(problem)) from None


def _columns(value: object) -> tuple[str, ...]:
    for column in (columns := _texts(value)):
        if len(parts := column.split(".")) < 2 or not all(parts):
            raise ValueError(
                f"{column!r} is no column: write schema.table.column, where * is anything"
            )
    return columns


def _one_of(*allowed: str) -> Take:
    def take(value: object) -> str:
        if value not in allowed:
            raise ValueError(f"it must be one of {', '.join(allowed)}")
        return str(value)

    return take


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


def _slot_name(value: object) -> str:
    if fault := slot_name_fault(name := _text(value)):
        raise ValueError(fault)
    return name


def _password(value: object) -> str:
    """Convert ``{ env = "NAME" }`` or ``{ file = "/path" }`` to the form of ``password_ref``."""
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
    if value in ("none", False):
        return None
    if not isinstance(value, str):
        raise ValueError('it must be a text such as "200GB", or "none"')
    check_keeping(Keeping(None, size := parse_size(value)))
    return size


#: Keys of ``[[source.slot]]`` and, except ``name``, of ``[defaults.slot]``.
SLOT: dict[str, Take] = {
    "name": _slot_name,
    "adopt": _yes_or_no,
    "publications": _names,
    "tables": _patterns,
    "except_tables": lambda value: _patterns(value) if value else (),
    "all_tables": _yes_or_no,
    "exclude_columns": _columns,
    "mask_columns": _columns,
    "two_phase": _yes_or_no,
    "failover": _yes_or_no,
    "wal_budget": _budget,
    "protect": _one_of(DATABASE, RECORD),
    "heartbeat": _heartbeat,
    "interface": _one_of("walsender", "sql"),
    "keep_for": _keep_for,
    "keep_at_most": _keep_at_most,
    "keep_aborted": _yes_or_no,
    "options": _options,
    "baseline": _yes_or_no,
    "running": _yes_or_no,
    "alerts": take_alerts,
}
#: Keys of ``[[source]]``.
SOURCE: dict[str, Take] = {"name": _text, "dsn": _text, "service": _text, "password": _password}
#: Keys of ``[defaults]``, besides ``[defaults.slot]``.
DEFAULTS: dict[str, Take] = {"dsn": _text, "password": _password}
#: Keys of ``[[grant]]``.
GRANT: dict[str, Take] = {"user": _text, "group": _text, "source": _text, "tables": _dotted}
#: Keys of ``[[mask]]``.
MASK: dict[str, Take] = {
    "source": _text,
    "table": _text,
    "column": _text,
    "type": _text,
    "when": _one_of("ingest", "display"),
    "note": _text,
}

"""Read a fleet file: return what its TOML declares, or all its faults with line and remedy."""

import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from replview.management.fleet import declared
from replview.management.fleet.declared import DeclaredFleet, Defaults
from replview.management.fleet.declared_slot import DeclaredSlot, FileContext, Table
from replview.management.fleet.faults import Fault, FleetFaults, fault_at, fault_of
from replview.management.fleet.key_lines import KeyLines, KeyPath

_MAX_BYTES = 4_000_000
_MAX_NAME_LENGTH = 100


def read_fleet(path: Path) -> DeclaredFleet:
    """Read and parse the file; ``-`` is standard input. Raises ``FleetFaults``."""
    standard = str(path) in ("-", "/dev/stdin")
    try:
        # Read standard input instead of opening it again: a pipe may belong to another user.
        with nullcontext(sys.stdin.buffer) if standard else path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise FleetFaults([Fault(0, "", "the file is longer than any fleet is")])
        text = content.decode()
    except OSError as error:
        raise FleetFaults([Fault(0, "", f"it cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise FleetFaults([Fault(0, "", "it is not UTF-8, as TOML is")]) from None
    return parse_fleet(text).named("stdin" if standard else path.name[:_MAX_NAME_LENGTH])


def parse_fleet(text: str) -> DeclaredFleet:
    """Parse the text of a fleet file. Raises ``FleetFaults`` with all faults."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FleetFaults([Fault(0, "", f"it is no TOML: {error}")]) from None
    lines = KeyLines(text)
    faults = list(_repetitions(document, lines))
    try:
        fleet = DeclaredFleet.model_validate(document, context=_context(document))
    except ValidationError as error:
        faults += [fault_of(details, lines) for details in error.errors(include_input=False)]
    if faults:
        raise FleetFaults(sorted(dict.fromkeys(faults), key=lambda fault: fault.line))
    return fleet


def _context(document: Mapping[str, Any]) -> FileContext:
    table = document.get("defaults", {})
    valid = _valid_defaults(table)
    defaults = Defaults.model_validate(valid)
    names = [source.get("name") for source in _tables(document, "source")]
    return FileContext(
        default_dsn=defaults.dsn if isinstance(table, Mapping) and "dsn" in table else None,
        default_password_ref=defaults.password_ref,
        slot_defaults=valid.get("slot", {}),
        source_names=frozenset(name.strip() for name in names if isinstance(name, str)),
    )


def _valid_defaults(table: Any) -> dict[str, Any]:
    """Return ``[defaults]`` without the invalid keys, which the fleet's own validation reports."""
    try:
        Defaults.model_validate(table)
    except ValidationError as error:
        if not isinstance(table, Mapping):
            return {}
        invalid = {details["loc"][:2] for details in error.errors(include_input=False)}
        valid = {key: value for key, value in table.items() if (key,) not in invalid}
        if "slot" in valid:
            slot = valid["slot"].items()
            valid["slot"] = {key: value for key, value in slot if ("slot", key) not in invalid}
        return valid
    return dict(table)


def _repetitions(document: Mapping[str, Any], lines: KeyLines) -> Iterator[Fault]:
    """Yield a fault for each second declaration; the declarations need not be valid."""
    arrays: list[tuple[type[Table], Mapping[str, Any], KeyPath]] = [
        (declared.DeclaredSource, document, ("source",)),
        (declared.DeclaredMask, document, ("mask",)),
        (declared.DeclaredGrant, document, ("grant",)),
    ]
    for index, source in enumerate(_tables(document, "source")):
        arrays.append((DeclaredSlot, source, ("source", index, "slot")))
    for model, holder, path in arrays:
        first_paths: dict[str, KeyPath] = {}
        for index, table in enumerate(_tables(holder, str(path[-1]))):
            name = _unvalidated_name(model, table)
            if name in first_paths:
                line = lines.line_of(first_paths[name])
                text = f"{name} is declared twice (line {line}, too)"
                yield fault_at((*path, index), text, lines)
            elif name:
                first_paths[name] = (*path, index)


def _unvalidated_name(model: type[Table], table: Mapping[str, Any]) -> str:
    """Return what the valid declaration would be called, with the defaults of absent keys."""
    values: dict[str, Any] = {
        key: value.strip() if isinstance(value, str) else value
        for key, value in table.items()
        if key in model.model_fields
    }
    return str(model.model_construct(**values))


def _tables(holder: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Return an array of tables; empty if it is anything else."""
    tables = holder.get(key)
    if isinstance(tables, list) and all(isinstance(table, Mapping) for table in tables):
        return tables
    return []

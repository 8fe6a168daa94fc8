"""Read a fleet file: return what its TOML declares, or all its faults with line and remedy."""

import sys
import tomllib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from psycopg import conninfo as libpq

from replview.acts.sources import name_fault
from replview.management.fleet import keys
from replview.management.fleet.declared import (
    DeclaredFleet,
    DeclaredGrant,
    DeclaredMask,
    DeclaredSlot,
    DeclaredSource,
)
from replview.management.fleet.faults import Fault, Faults, FleetFaults, Places
from replview.store.dsn import split_dsn
from replview.store.reachable import DSNError

_MAX_BYTES = 4_000_000
_MAX_NAME_LENGTH = 100
SettingPath = tuple[str | int, ...]
Declared = TypeVar("Declared", DeclaredSource, DeclaredSlot, DeclaredMask, DeclaredGrant)


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
    return replace(parse_fleet(text), name="stdin" if standard else path.name[:_MAX_NAME_LENGTH])


def parse_fleet(text: str) -> DeclaredFleet:
    """Parse the text of a fleet file. Raises ``FleetFaults`` with all faults."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FleetFaults([Fault(0, "", f"it is no TOML: {error}")]) from None
    faults = Faults(Places(text))
    fleet = _fleet(document, faults)
    faults.check()
    return fleet


def _fleet(document: Mapping[str, Any], faults: Faults) -> DeclaredFleet:
    known_keys = {"defaults", "source", "mask", "grant"}
    for key in document:
        if key not in known_keys:
            faults.unknown((key,), known_keys)
    defaults_table = document.get("defaults", {})
    defaults: dict[str, Any] = {}
    slot_defaults: dict[str, Any] = {}
    if isinstance(defaults_table, Mapping):
        defaults = _convert(
            defaults_table, keys.DEFAULTS, ("defaults",), faults, other_keys={"slot"}
        )
        inherited = {key: take for key, take in keys.SLOT.items() if key != "name"}
        if isinstance(defaults_table.get("slot", {}), Mapping):
            slot_defaults = _convert(
                defaults_table.get("slot", {}), inherited, ("defaults", "slot"), faults
            )
    else:
        faults.add(("defaults",), "it must be a table: [defaults]")
    sources = _read_each(
        document,
        ("source",),
        faults,
        lambda table, path: _source(table, path, defaults, slot_defaults, faults),
    )
    names = {source.name for source in sources}
    masks = _read_each(
        document, ("mask",), faults, lambda table, path: _mask(table, path, names, faults)
    )
    grants = _read_each(
        document, ("grant",), faults, lambda table, path: _grant(table, path, names, faults)
    )
    return DeclaredFleet(sources=sources, masks=masks, grants=grants, has_masks="mask" in document)


def _source(
    table: Mapping[str, Any],
    path: SettingPath,
    defaults: Mapping[str, Any],
    slot_defaults: Mapping[str, Any],
    faults: Faults,
) -> DeclaredSource | None:
    values = _convert(table, keys.SOURCE, path, faults, other_keys={"slot"})
    if "name" not in values:
        if "name" not in table:
            faults.add(path, 'it has no name: name = "shop"')
        return None
    name = values["name"]
    if fault := name_fault(name):
        faults.add((*path, "name"), fault)
    dsn, password_ref = address_of(values, defaults, path, faults)
    slots = _read_each(
        table,
        (*path, "slot"),
        faults,
        lambda slot_table, slot_path: _slot(slot_table, slot_path, slot_defaults, faults),
    )
    line = faults.line_of(path)
    return DeclaredSource(name=name, dsn=dsn, password_ref=password_ref, slots=slots, line=line)


def _slot(
    table: Mapping[str, Any], path: SettingPath, defaults: Mapping[str, Any], faults: Faults
) -> DeclaredSlot | None:
    own_values = _convert(table, keys.SLOT, path, faults)
    values = {**defaults, **own_values}
    if "alerts" in values:
        values["alerts"] = {**defaults.get("alerts", {}), **own_values.get("alerts", {})}
    # A slot that chooses tables itself inherits no table choice from the defaults.
    choices = {"publications", "tables", "except_tables", "all_tables"}
    if choices & set(own_values):
        values = {k: v for k, v in values.items() if k not in choices or k in own_values}
    if "publications" in values and {"tables", "except_tables", "all_tables"} & set(values):
        faults.add(
            (*path, "publications"),
            "publications are used as they are: leave tables, except_tables and all_tables out",
        )
    if values.get("all_tables") and {"tables", "except_tables"} & set(values):
        faults.add((*path, "all_tables"), "all_tables leaves no choice: leave tables out")
    if values.get("wal_budget", "") is None and not values.get("adopt"):
        faults.add(
            (*path, "wal_budget"),
            'a slot that replview creates has a WAL budget; to be warned only: protect = "record"',
        )
    if "name" in table and "name" not in own_values:
        return None  # the name is invalid: do not use the default name instead
    name = values.pop("name", "replview")
    return DeclaredSlot(name=name, values=values, line=faults.line_of(path))


def _mask(
    table: Mapping[str, Any], path: SettingPath, sources: set[str], faults: Faults
) -> DeclaredMask | None:
    values = _convert(table, keys.MASK, path, faults)
    if values.get("source", "") and values["source"] not in sources:
        faults.add((*path, "source"), f"there is no [[source]] named {values['source']} here")
    names = values.get("table", "") + values.get("column", "")
    if not values.get("type") and set(names) <= set("*."):
        faults.add(path, "it would mask every column there is: name a table, a column or a type")
        return None
    return DeclaredMask(**values, line=faults.line_of(path))


def _grant(
    table: Mapping[str, Any], path: SettingPath, sources: set[str], faults: Faults
) -> DeclaredGrant | None:
    values = _convert(table, keys.GRANT, path, faults)
    if values.get("source", "") and values["source"] not in sources:
        faults.add((*path, "source"), f"there is no [[source]] named {values['source']} here")
    if ("user" in values) == ("group" in values):
        faults.add(path, 'it must name either a user or a group, such as group = "viewer"')
        return None
    kind = "user" if "user" in values else "group"
    tables = values.get("tables", ())
    return DeclaredGrant(kind=kind, holder=values[kind], source=values.get("source", ""),
                         tables=() if "*" in tables else tables)  # fmt: skip


def _convert(
    table: Mapping[str, Any],
    converters: Mapping[str, keys.Take],
    path: SettingPath,
    faults: Faults,
    other_keys: frozenset[str] | set[str] = frozenset(),
) -> dict[str, Any]:
    """Return the valid values of a table; report unknown keys and invalid values as faults."""
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key in other_keys:
            continue
        if key not in converters:
            faults.unknown((*path, key), {*converters, *other_keys})
            continue
        try:
            values[key] = converters[key](value)
        except ValueError as error:
            faults.add((*path, key), str(error))
    return values


def _tables(
    within: Mapping[str, Any], path: SettingPath, faults: Faults
) -> list[Mapping[str, Any]]:
    """Return an array of tables; report any other value as a fault."""
    tables = within.get(str(path[-1]), [])
    if isinstance(tables, list) and all(isinstance(table, Mapping) for table in tables):
        return tables
    heading = ".".join(part for part in path if isinstance(part, str))
    faults.add(path, f"it must be an array of tables: [[{heading}]]")
    return []


def _read_each(
    within: Mapping[str, Any],
    path: SettingPath,
    faults: Faults,
    read: Callable[[Mapping[str, Any], SettingPath], Declared | None],
) -> tuple[Declared, ...]:
    """Return what an array of tables declares; report a second declaration as a fault."""
    declared_by_name: dict[str, tuple[Declared, SettingPath]] = {}
    for index, table in enumerate(_tables(within, path, faults)):
        entry_path = (*path, index)
        declaration = read(table, entry_path)
        if declaration is None:
            continue
        name = getattr(declaration, "name", "") or str(declaration)
        if name in declared_by_name:
            line = faults.line_of(declared_by_name[name][1])
            faults.add(entry_path, f"{name} is declared twice (line {line}, too)")
        declared_by_name.setdefault(name, (declaration, entry_path))
    return tuple(declaration for declaration, _ in declared_by_name.values())


def address_of(
    values: Mapping[str, Any], defaults: Mapping[str, Any], path: SettingPath, faults: Faults
) -> tuple[str, str]:
    """Return ``(conninfo, password_ref)`` in the form that the store keeps.

    An invalid address becomes a fault.
    """
    dsn = str(values.get("dsn", ""))
    service = str(values.get("service", ""))
    if dsn and service:
        faults.add((*path, "service"), "give a dsn or a service, not both")
    password_ref = values.get("password", "")
    if dsn.startswith("env:"):
        if password_ref:
            faults.add((*path, "password"), "the whole DSN is in that variable, password and all")
        return _split(dsn, (*path, "dsn"), faults), ""
    if service:
        # Merge no defaults: their keywords would override the settings of the service.
        return _split(libpq.make_conninfo("", service=service), path, faults), password_ref
    if not dsn and "dsn" not in defaults:
        faults.add(path, 'it has no address: dsn = "host=… dbname=… user=…"')
        return "", ""
    password_ref = password_ref or defaults.get("password", "")
    shared = _split(str(defaults.get("dsn", "")), ("defaults", "dsn"), faults)
    conninfo = _split(dsn, (*path, "dsn"), faults)
    if shared.startswith("env:"):
        return conninfo or shared, password_ref if conninfo else ""
    merged = {**libpq.conninfo_to_dict(shared), **libpq.conninfo_to_dict(conninfo)}
    return libpq.make_conninfo("", **merged), password_ref


def _split(dsn: str, path: SettingPath, faults: Faults) -> str:
    """Return the DSN as the store keeps it; an invalid one becomes a fault and an empty text."""
    try:
        conninfo, password = split_dsn(dsn)
    except DSNError as error:
        faults.add(path, str(error))
        return ""
    if password:
        faults.add(path, "a password stands in it: say where it is instead, password = "
                   '{ env = "NAME" } or { file = "/run/secrets/name" }, or keep it in a service '
                   "file")  # fmt: skip
    return conninfo

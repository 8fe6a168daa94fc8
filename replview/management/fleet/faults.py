"""The faults of a fleet file: the line, the key, and what to write instead."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic_core import ErrorDetails

from replview.management.fleet import declared
from replview.management.fleet.declared_slot import DeclaredSlot, SlotDefaults, Table
from replview.management.fleet.key_lines import KeyLines, KeyPath

#: The model of each table in the file, by its heading.
_MODELS: dict[str, type[Table]] = {
    "": declared.DeclaredFleet,
    "defaults": declared.Defaults,
    "defaults.slot": SlotDefaults,
    "source": declared.DeclaredSource,
    "source.slot": DeclaredSlot,
    "mask": declared.DeclaredMask,
    "grant": declared.DeclaredGrant,
}
_LIST = 'it must be a list of texts, such as ["public.orders"]'
#: The words for Pydantic's own errors, by their type.
_TEXTS = {
    "bool_type": "it must be true or false",
    "literal_error": "it must be {expected}",
    "string_too_short": _LIST,
    "string_type": _LIST,
    "tuple_type": _LIST,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a fleet file."""

    line: int
    #: For example ``source[1].slot[1].wal_budget``; empty for a fault of the whole file.
    key: str
    text: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.key}: {self.text}" if self.key else self.text


class FleetFaults(Exception):
    """The file cannot be used, and nothing was done; the error holds all its faults."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = tuple(faults)


def fault_at(path: KeyPath, text: str, lines: KeyLines) -> Fault:
    """Return the fault of the key at this path, whose name counts from one: ``source[2].name``."""
    key = ""
    for part in path:
        key += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if key else part
    return Fault(lines.line_of(path), key, text)


def fault_of(error: ErrorDetails, lines: KeyLines) -> Fault:
    """Return an error of the models as a fault, whose text does not repeat the value."""
    path, kind, values = error["loc"], error["type"], error.get("ctx", {})
    if is_element := isinstance(path[-1], int):
        path = path[:-1]  # the list is at fault
    heading = _heading(path)
    if kind == "extra_forbidden":
        text = _unknown(str(path[-1]), _MODELS[_heading(path[:-1])])
    elif kind == "incomplete":
        path, text = path[:-1], error["msg"]
    elif kind == "value_error":
        text = str(values["error"])
    elif kind == "model_type" and not is_element:
        text = f"it must be a table: [{heading}]"
    elif heading in _MODELS:
        text = f"it must be an array of tables: [[{heading}]]"
    else:
        text = _TEXTS[kind].format_map(values)
    return fault_at(path, text, lines)


def _heading(path: KeyPath) -> str:
    return ".".join(part for part in path if isinstance(part, str))


def _unknown(key: str, model: type[Table]) -> str:
    """Return the text for an unknown key, which names the most similar known key."""
    fields = model.model_fields.items()
    names = sorted(str(field.validation_alias or name) for name, field in fields)
    similar = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    hint = f"did you mean {similar[0]}?" if similar else f"known are {', '.join(names)}"
    return f"there is no such key; {hint}"

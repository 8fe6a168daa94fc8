"""The filter options that ``replview changes`` and ``replview export`` share."""

from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import CommandError

from decoder.scalars import LSN
from replview.access.visibility import reading_session
from replview.store.models import Slot
from replview.store.read.changes.selections import Selection
from replview.store.read.transactions.fields import FIELDS
from replview.store.read.transactions.filter_values import read_lsn, read_number
from replview.text.parsing import name_parts, whole_number

_OPERATION_LETTERS = {
    "insert": "I", "update": "U", "delete": "D", "truncate": "T", "message": "M", "snapshot": "S",
}  # fmt: skip


def add_filters(parser: ArgumentParser, *, of_rows: bool = True) -> None:
    """Add the options that filter, the same as the pages offer.

    ``of_rows`` also adds the filters that need single rows: ``--where`` and ``--row``.
    """
    option = parser.add_argument
    option(
        "--table",
        "--relation",
        action="append",
        metavar="SCHEMA.TABLE",
        dest="tables",
        help="only changes of this table, also under its former names; may be repeated",
    )
    option("--op", action="append", metavar="OP", type=_operation,
           help="insert, update, delete, truncate, message or snapshot; may be "
           "repeated")  # fmt: skip
    states = ["committed", "message", "snapshot"]
    option("--state", action="append", metavar="STATE", choices=states,
           help="committed, message or snapshot (a baseline's rows)")  # fmt: skip
    _add_single_transactions(parser)
    types: dict[Any, Any] = {read_number: number, read_lsn: _lsn}
    for field in FIELDS:
        if field.option is not None:
            option(f"--{field.name.replace('_', '-')}", type=types.get(field.read, str),
                   metavar=field.option.metavar, help=field.option.help)  # fmt: skip
    if of_rows:
        _add_row_filters(parser)


def _add_single_transactions(parser: ArgumentParser) -> None:
    option = parser.add_argument
    option("--xid", type=int, metavar="XID", help="only the transaction with this xid")
    option("--gid", metavar="GID", help="only the two-phase transaction with this gid")
    option(
        "--transaction",
        type=number,
        metavar="ID",
        help="only the transaction with this number, as in its page's URL",
    )


def _add_row_filters(parser: ArgumentParser) -> None:
    option = parser.add_argument
    option(
        "--where",
        metavar="CONDITION",
        help="condition on values: 'status = paid and amount > 100', "
        "'status changed', 'status: pending -> paid', 'note ~ urgent', 'note is null'",
    )
    option(
        "--row",
        metavar="KEY",
        help="only changes of this row: 42 or \"a=1, b='x, y'\"; needs --table",
    )


def selection_of(slot: Slot, options: dict[str, Any]) -> Selection:
    """Return the selection that the options describe. Raises ``CommandError``."""
    selection = Selection.from_words(reading_session(), slot, words_of(options))
    if selection.trouble:
        raise CommandError(selection.trouble)
    return selection


def words_of(options: dict[str, Any]) -> dict[str, str]:
    """Return the options as filter parameters, by name. Raises ``CommandError``."""
    if options["xid"] is not None and options["gid"]:
        raise CommandError("give either --xid or --gid")
    parameters = {
        "tables": ",".join(_table(text) for text in options["tables"] or ()),
        "ops": "".join(options["op"] or ()),
        "states": ",".join(options["state"] or ()),
        "id": options["gid"] or ("" if options["xid"] is None else str(options["xid"])),
        "key": options.get("row"),
        **{name: options.get(name) for name in ("transaction", "where")},
        **{field.parameter: options[field.name] for field in FIELDS if field.option},
    }
    return {name: str(value) for name, value in parameters.items() if value}


def _table(text: str) -> str:
    parts = name_parts(text)
    if not all(parts):
        raise CommandError(f"{text} is not a table's name: write schema.table")
    return text if len(parts) > 1 else f"public.{text}"


def _lsn(text: str) -> LSN:
    try:
        return LSN.parse(text)
    except ValueError:
        raise CommandError(f"{text} is not an LSN: write it like 0/1B2C3D8") from None


def _operation(text: str) -> str:
    letter = _OPERATION_LETTERS.get(text.lower(), text.upper())
    if letter not in _OPERATION_LETTERS.values():
        raise ArgumentTypeError(f"{text} is none of {', '.join(_OPERATION_LETTERS)}")
    return letter


def number(text: str) -> int:
    """Parse an option's number, which must be at least one."""
    value = whole_number(text)
    if not value:
        raise ArgumentTypeError(f"{text} is not a number above zero")
    return value

"""The tables of the generated record: their shapes over time and what their rows say.

A row's values follow from its number and from how often it was changed, so that an old row can be
told without having been kept.
"""

from dataclasses import dataclass
from typing import Any

import orjson

_IN_ORDER = (
    "orders order_items payments documents customers order_lines shipments ledger invoices"
    " counters products stock carts cart_items sessions addresses refunds returns coupons reviews"
    " suppliers warehouses pallets routes drivers vehicles tickets comments users roles tokens"
    " devices events webhooks jobs reports exports imports prices discounts taxes currencies"
    " countries regions budgets accounts balances audit_log settings legal_holds"
)
#: By position: the table that a value is searched in, the one with large values, the one whose few
#: rows change all day, the one that hardly ever changes.
SEARCHED, TOASTED, HOT, RARE = 2, 3, 9, 49
#: With a key of two columns, with keys that are updated now and then, without a key.
COMPOSITE, MOVING, NOTHING = 5, 6, 47
FULL = frozenset({1, 7, 13, 19, 25})
HOT_ROWS = 200

_STATUSES = (b"pending", b"paid", b"packed", b"shipped", b"delivered")
_WORDS = (
    "leave at the door",
    "fragile: keep upright",
    "call before noon",
    "gift, no invoice",
    "second attempt",
    "customer asked twice",
    "checked by hand",
    "moved from the old shop",
)
_CHANNELS = ("web", "shop", "app", "phone")
NOTES = tuple(f"{_WORDS[n % 8]}, {_WORDS[n // 8 % 8]} {n}".encode() for n in range(256))
_ATTRIBUTES = tuple(
    orjson.dumps(f'{{"channel": "{_CHANNELS[n % 4]}", "items": {n % 7}, "tier": {n}}}')
    for n in range(256)
)
_STAMPS = tuple(
    f"2026-{1 + n % 12:02d}-{1 + n % 28:02d} {n % 24:02d}:{n % 60:02d}:11.{369827 + n}+00".encode()
    for n in range(1000)
)
_BASE = (
    ("customer_id", 23, "integer", -1),
    ("status", 25, "text", -1),
    ("amount", 1700, "numeric(12,2)", (12 << 16 | 2) + 4),
    ("note", 25, "text", -1),
    ("attributes", 3802, "jsonb", -1),
    ("created_at", 1184, "timestamp with time zone", -1),
    ("updated_at", 1184, "timestamp with time zone", -1),
)
#: Columns that came later, with what they hold.
_ADDED = (
    ("channel", 1043, "character varying(40)", 44, b"web"),
    ("priority", 21, "smallint", -1, b"3"),
    ("region", 25, "text", -1, b"eu-north"),
)


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the record."""

    position: int
    name: str
    identity: str
    versions: int

    @property
    def key_columns(self) -> list[str]:
        """Return the names of the key columns; empty if the table has no replica identity."""
        if self.identity == "NOTHING":
            return []
        return ["order_id", "line"] if self.position == COMPOSITE else ["id"]

    def columns(self, version: int) -> list[dict[str, Any]]:
        """The columns of its version 1, 2, …, as ``relation_version.columns`` keeps them."""
        first = (
            (("order_id", 20, "bigint", -1), ("line", 23, "integer", -1))
            if self.position == COMPOSITE
            else (("id", 20, "bigint", -1),)
        )
        added = tuple(column[:4] for column in _ADDED[: version - 1])
        return [
            {
                "name": name,
                "type_oid": oid,
                "type": kind,
                "typmod": typmod,
                "key": self.identity == "FULL" or name in self.key_columns,
            }
            for name, oid, kind, typmod in (*first, *_BASE, *added)
        ]

    def template(self, version: int) -> bytes:
        """The end of a row's document, after its columns of every version."""
        added = (
            b',"%s":"%s"' % (name.encode(), value) for name, *_, value in _ADDED[: version - 1]
        )
        return b"".join(added) + b"}"


def tables(number: int) -> list[Table]:
    """The first so many tables, in falling order of how much they change."""

    def identity(position: int) -> str:
        if position == NOTHING:
            return "NOTHING"
        return "FULL" if position in FULL else "DEFAULT"

    return [
        Table(position, name, identity(position), 1 + (position * 7 + 3) % 4)
        for position, name in enumerate(_IN_ORDER.split()[:number])
    ]


def key_document(table: Table, row: int) -> bytes:
    """The key's columns, as the beginning of a document."""
    if table.position == COMPOSITE:
        return b'{"order_id":"%d","line":"%d"' % (row >> 2, row & 3)
    return b'{"id":"%d"' % row


def key_text(table: Table, row: int) -> bytes:
    """Return the text that is hashed to find the row (``store.read.rows.key_hash``)."""
    return b"%d\x1f%d" % (row >> 2, row & 3) if table.position == COMPOSITE else b"%d" % row


def document(table: Table, row: int, times_changed: int, end: bytes, *, note: bool = True) -> bytes:
    """The whole row after so many updates; without ``note``: that value was not sent."""
    cents = (row * 7919 + times_changed // 3 * 131) % 100_000
    return (
        b'%b,"customer_id":"%d","status":"%b","amount":"%d.%02d",%b"attributes":%b,"created_at":"%b","updated_at":"%b"%b'
        % (
            key_document(table, row),
            row % 90_001,
            _STATUSES[times_changed % 5],
            cents // 100,
            cents % 100,
            b'"note":"%b",' % NOTES[(row + times_changed // 4) & 255] if note else b"",
            _ATTRIBUTES[(row + times_changed // 5) & 255],
            _STAMPS[row % 1000],
            _STAMPS[(row + times_changed * 17) % 1000],
            end,
        )
    )

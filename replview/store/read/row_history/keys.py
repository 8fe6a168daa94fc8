"""Look up a row's table in a slot, parse its key, and find the hashes to search by.

Also finds the keys of rows that were changed lately.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from replview.store.read.mask_rules import table_readings
from replview.store.read.printed import NotOfTypeError, as_printed, type_of
from replview.store.read.relation_shapes import SHAPE_CAME
from replview.store.read.row_history.recorded_keys import equal_keys, recorded
from replview.store.read.row_history.shapes import Shapes, Version, key_values
from replview.store.read.rows import QueriedRelation, QueriedSlot, signed_hash
from replview.store.read.seen import withheld_reason
from replview.store.read.session import ReadSession
from replview.store.read.sql_text import base_type
from replview.text.parsing import plain_name
from replview.text.problem import CodedProblem

#: The most characters of a key in an address or an input field.
KEY_CHARACTERS = 2000

_PAIR = re.compile(
    r"""\s*(?:"((?:[^"]|"")+)"|([^\s=,"']+))\s*=\s*(?:'((?:[^']|'')*)'|([^,]*))\s*(?:,|$)"""
)
#: A column's name and ``=``, with which a key may begin.
_NAME = re.compile(r"""\s*(?:"((?:[^"]|"")+)"|([^\s=,"']+))\s*=""")
_QUOTE_IT = "a value that holds a comma in single quotes"
_VALUE = re.compile(r"""\s*(?:'((?:[^']|'')*)'|([^,]*))\s*(?:,|$)""")


class KeyProblem(CodedProblem, ValueError):
    """A key cannot be one of the table; the message says why and what would be."""

    code_of_all = "bad_key"


@dataclass(frozen=True, slots=True)
class TableRows:
    """A table of a slot, with all relations of its name.

    A table that is dropped and created again, or is on another cluster, has another relation.
    """

    relation: QueriedRelation
    #: The shapes of all relations of the name.
    shapes: Shapes
    relation_ids: tuple[int, ...]

    @property
    def version(self) -> Version | None:
        """Return the shape in force now."""
        number = self.relation.current_version_id
        found = self.shapes.versions.get(number) if number else None
        mine = [v for v in self.shapes.versions.values() if v.relation_id == self.relation.pk]
        return found or (max(mine, key=lambda v: v.number) if mine else None)

    @property
    def key_columns(self) -> list[str]:
        """Return the key's columns now, or in the last shape that had a key."""
        if self.version is not None and self.version.key_columns:
            return self.version.key_columns
        keyed = [v for v in self.shapes.versions.values() if v.key_columns]
        return max(keyed, key=lambda v: (v.relation_id, v.number)).key_columns if keyed else []

    def printed(self, session: ReadSession, key: Mapping[str, str | None]) -> dict[str, str | None]:
        """Return the key as the server prints its values, for comparison by their types.

        Raises ``KeyProblem`` where one is no value of its type.
        """
        versions = sorted(self.shapes.versions.values(), key=lambda v: (v.relation_id, v.number))
        columns = {column["name"]: column for v in versions for column in v.columns}
        found = dict(key)
        for name, value in key.items():
            try:
                if value is not None:
                    found[name] = as_printed(session, columns.get(name, {}), value)
            except NotOfTypeError as error:
                cause = f"what was typed for {name} is no {error.type_name}"
                raise KeyProblem(cause) from None
        return found

    def type_by_text(self, session: ReadSession) -> str:
        """Return a type in the key whose values are found only as their server writes them.

        Empty: the store can compare values of all types in the key.
        """
        keyed = (v for v in self.shapes.versions.values() if v.key_columns)
        for column in (c for v in keyed for c in v.columns if c["name"] in v.key_columns):
            if type_of(session, column) is None:
                return base_type(column.get("type")) or "unknown"
        return ""

    def withheld(self, session: ReadSession) -> str:
        """Return why the user may not look for rows by their key; empty: the user may."""
        names = {name for v in self.shapes.versions.values() for name in v.key_columns}
        return withheld_reason(session, self.relation_ids, sorted(names), str(self.relation))

    def hashes(self, key: Mapping[str, str | None]) -> list[tuple[int, dict[str, str | None]]]:
        """Return ``(key_hash, key)`` under which changes of the row are found, in any shape."""
        lists = {tuple(v.key_columns) for v in self.shapes.versions.values() if v.key_columns}
        keys = [{n: key[n] for n in names} for names in sorted(lists) if key.keys() == set(names)]
        return list({signed_hash(list(each.values())): each for each in keys}.items())

    def recorded(
        self, session: ReadSession, key: Mapping[str, str | None]
    ) -> list[tuple[int, dict[str, str | None]]]:
        """Return ``(key_hash, key)`` of every recorded key that equals this one by its types.

        Returns the key itself where none is recorded. ``key``: see ``printed``.
        """
        versions = self.shapes.versions.values()
        keys = equal_keys(session, versions, self.relation_ids, key)
        found = [pair for each in keys for pair in self.hashes(each)]
        if len(keys) == 1:
            return found
        known = recorded(session, self.relation_ids, [key_hash for key_hash, _ in found])
        return list({h: (h, each) for h, each in found if h in known}.values()) or self.hashes(key)


@dataclass(slots=True)
class _StoredRelation:
    """A row of ``relation``."""

    pk: int
    slot_id: int
    schema: str
    table: str
    current_version_id: int | None

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


_NAMED = 'slot_id = %s AND schema = %s AND "table" = %s'


def _relations(session: ReadSession, where: str, *parameters: Any) -> list[QueriedRelation]:
    """Return relations; of several with the same name, the one that got it last comes first."""
    sql = f"""
        SELECT id, slot_id, schema, "table", current_version_id FROM relation r
        WHERE {where} ORDER BY {SHAPE_CAME} DESC NULLS LAST, id DESC
    """  # noqa: S608 (this module's own words)
    return [_StoredRelation(*row) for row in session.rows(sql, parameters)]


def tables_named(
    session: ReadSession,
    slot: QueriedSlot,
    name: str,
    among: Sequence[QueriedRelation] | None = None,
) -> TableRows | None:
    """Return the slot's table ``schema.table``, or ``table`` alone where the name is unique.

    ``among``: all relations of the slot, where they were read already.
    """
    found = [r for r in among or () if f"{r.schema}.{r.table}" == name]
    return _table(session, found if len(found) == 1 else _relations_named(session, slot, name))


def _table(session: ReadSession, found: Sequence[QueriedRelation]) -> TableRows | None:
    if not found:
        return None
    ids = tuple(relation.pk for relation in found)
    return TableRows(found[0], Shapes.of(session, ids), ids)


def table_of(session: ReadSession, slot: QueriedSlot, relation_id: int) -> TableRows | None:
    """Return the table of a relation, with all relations of the same name."""
    found = _relations(session, "slot_id = %s AND id = %s", slot.pk, relation_id)
    named = (_relations(session, _NAMED, slot.pk, one.schema, one.table) for one in found)
    return _table(session, next(named, []))


def _relations_named(session: ReadSession, slot: QueriedSlot, name: str) -> list[QueriedRelation]:
    """Return the relations of a name; none where several schemas have the bare name."""
    for schema, table in table_readings(name):
        if found := _relations(session, _NAMED, slot.pk, schema, table):
            return found
    alone = 'slot_id = %s AND "table" = ANY(%s)'
    found = _relations(session, alone, slot.pk, [name, plain_name(name)])
    return found if len({relation.schema for relation in found}) == 1 else []


def parse_key(text: str, key_columns: Sequence[str]) -> dict[str, str | None]:
    """Parse a typed key: ``42``, ``id=42``, ``a=1, b='x, y'`` or, in order, ``1, 'x, y'``.

    Raises ``KeyProblem``.
    """
    text = text.strip()[:KEY_CHARACTERS]
    if not key_columns:
        raise KeyProblem("rows of this table cannot be told apart: it has no key")
    if not text:
        raise KeyProblem(f"type a value for {', '.join(key_columns)}")
    pairs = _pairs(text)
    if pairs is not None and any(name in key_columns for name in pairs):
        return _complete(pairs, key_columns)
    named = _NAME.match(text)
    if named and (named[2] or named[1].replace('""', '"')) in key_columns:
        # A comma separates values, so the text after the name is not one value.
        raise KeyProblem(f"the key is not understood: write {_example(key_columns)}, {_QUOTE_IT}")
    if len(key_columns) == 1:
        quoted = len(text) > 1 and text[0] == text[-1] == "'"
        return {key_columns[0]: text[1:-1].replace("''", "'") if quoted else text}
    values = [
        match[1].replace("''", "'") if match[1] is not None else match[2].strip()
        for match in _VALUE.finditer(text.removeprefix("(").removesuffix(")"))
        if match[0]
    ]
    if len(values) != len(key_columns):
        number, wanted = len(key_columns), _example(key_columns)
        raise KeyProblem(f"the key has {number} columns: type {wanted}, {_QUOTE_IT}")
    return dict(zip(key_columns, values, strict=True))


def _example(key_columns: Sequence[str]) -> str:
    return ", ".join(f"{name}=…" for name in key_columns)


def parse_values(text: str, columns: Sequence[str]) -> dict[str, str | None]:
    """Parse typed values of some columns, ``mail=a@b, name='x, y'``, for a table without a key.

    Raises ``KeyProblem``.
    """
    pairs = _pairs(text.strip()[:KEY_CHARACTERS])
    if not pairs or any(name not in columns for name in pairs):
        raise KeyProblem("the table has no key: name columns and values, as in mail=a@b")
    return pairs


def _pairs(text: str) -> dict[str, str | None] | None:
    """Return ``name=value, …`` as a mapping; None where the text does not have that form."""
    found: dict[str, str | None] = {}
    position = 0
    while position < len(text):
        match = _PAIR.match(text, position)
        if match is None:
            return None
        name = match[1].replace('""', '"') if match[1] else match[2]
        found[name] = match[3].replace("''", "'") if match[3] is not None else match[4].strip()
        position = match.end()
    return found


def _complete(pairs: Mapping[str, str | None], key_columns: Sequence[str]) -> dict[str, str | None]:
    missing = [name for name in key_columns if name not in pairs]
    other = [name for name in pairs if name not in key_columns]
    if missing:
        raise KeyProblem(f"the key is not complete: {', '.join(missing)} is missing")
    if other:
        raise KeyProblem(f"{other[0]} is not part of the key, which is {', '.join(key_columns)}")
    return {name: pairs[name] for name in key_columns}


#: The number of the slot's last transactions to search, and of changes in each.
_TRANSACTIONS = 400
_CHANGES = 20

_LATELY = """
    WITH lately AS MATERIALIZED (
        SELECT t.id, t.commit_seq, t.relations FROM transaction t
        WHERE t.incarnation_id = (SELECT s.incarnation_id FROM slot s WHERE s.id = %(slot)s)
          AND t.commit_seq IS NOT NULL
        ORDER BY t.commit_seq DESC LIMIT %(transactions)s
    ), touched AS MATERIALIZED (
        SELECT id, commit_seq FROM lately WHERE relations ? %(relation)s
        ORDER BY commit_seq DESC LIMIT %(wanted)s
    )
    SELECT c.old, c.new, c.version_id
    FROM touched t CROSS JOIN LATERAL (
        SELECT c.seq, c.old, c.new, c.version_id FROM change c
        WHERE c.transaction_id = t.id AND c.relation_id = %(relation)s::bigint
          AND c.key_hash IS NOT NULL AND c.seq <= 1000
        ORDER BY c.seq LIMIT %(changes)s
    ) c
    ORDER BY t.commit_seq DESC, c.seq LIMIT %(rows)s
"""


def changed_lately(
    session: ReadSession, table: TableRows, wanted: int
) -> list[dict[str, str | None]]:
    """Return the keys of some rows that the last transactions changed, the last one first."""
    if table.withheld(session):
        return []
    parameters = {
        "slot": table.relation.slot_id,
        "relation": str(table.relation.pk),
        "transactions": _TRANSACTIONS,
        "wanted": wanted,
        "changes": _CHANGES,
        "rows": wanted * 5,
    }
    found: dict[tuple[str, ...], dict[str, str | None]] = {}
    for old, new, version_id in session.prepared_rows(_LATELY, parameters):
        version = table.shapes.versions.get(version_id)
        names = version.key_columns if version else []
        images = [None if image is None else orjson.loads(image) for image in (new, old)]
        key = key_values(names, *images)
        if key is not None and all(isinstance(value, str) for value in key):
            found.setdefault(key, dict(zip(names, key, strict=True)))
    return list(found.values())[:wanted]

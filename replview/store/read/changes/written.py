"""Lines of whole transactions that the store writes: of small rows, sent whole or by their key.

Most changes are such. What the store gives of a transaction is the text of its lines, each from
``,"seq"`` on, equal byte for byte to what ``records`` makes of the values, which need not become
objects first.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from replview.store.read.changes.records import OPERATIONS
from replview.store.read.relation_shapes import VersionShape
from replview.store.read.rows import ChangeRow
from replview.store.read.session import ReadSession, array_text

#: Shapes of tables that one statement knows, the last seen, and columns of each.
_SHAPES, _COLUMNS = 16, 60
#: Of a change: a longer one is compressed or out of line, and would be fetched for each column.
_MOST_BYTES = 1500
#: In a line: a value that is marked, not a text. Within a text the quote would be escaped.
_MARK = '":{"$'
#: ``{line}``: of ``change c``; NULL where it is not the store's to write.
_READ = """
    SELECT l.transaction_id, min(l.seq),
        CASE WHEN count(l.line) = count(*) THEN string_agg(l.line, '' ORDER BY l.seq) END
    FROM (SELECT c.transaction_id, c.seq, {line} AS line {rest} OFFSET 0) l
    GROUP BY l.transaction_id
"""
_WORDS = " ".join(f"WHEN '{letter}' THEN '{OPERATIONS[letter]}'" for letter in "IUDS")
_LINE = f"""
    CASE WHEN coalesce(pg_column_size(c.new), 0) + coalesce(pg_column_size(c.old), 0)
        < {_MOST_BYTES} THEN ',"seq":' || c.seq || ',"lsn":"' || c.lsn
        || '","subxid":' || coalesce(c.subxid::text, 'null') || ',"op":"'
        || CASE c.op::text {_WORDS} END || CASE c.version_id {{shapes}} END END
"""


@dataclass(slots=True)
class StoreLines:
    """Which shapes the store writes lines of, and how."""

    _known: dict[int, VersionShape] = field(default_factory=dict)

    def written(
        self, session: ReadSession, ids: list[int], rest: str, values: Mapping[str, Any]
    ) -> tuple[list[ChangeRow], list[int]]:
        """Of ``rest`` (a statement from its FROM on): the changes of transactions that the store
        writes, each with its ``lines``; and which others of ``ids`` are left to read.
        """
        if not self._known or not session.visibility.open:
            return [], ids
        more = {**values, "ids": array_text(ids)}
        shapes = (f"WHEN {each.id:d} THEN {_rest(each, more)}" for each in self._known.values())
        line = _LINE.format(shapes=" ".join(shapes))
        blocks, left = [], []
        for transaction_id, seq, lines in session.rows(_READ.format(line=line, rest=rest), more):
            # What was masked meanwhile is not in them, either.
            if lines and _MARK not in lines and session.visibility.open:
                row = transaction_id, seq, "", None, "", *[None] * 10, [], [], False, False, lines
                blocks.append(ChangeRow._make(row))
            else:
                left.append(transaction_id)
        return blocks, left

    def learn(self, shapes: Iterable[VersionShape], masked: Collection[int]) -> None:
        """These are shapes of changes that the store did not write. Those that had a masked value
        are not tried again until one comes without: it would be read twice.
        """
        seen = {each.id: each for each in shapes if 0 < len(each.columns) <= _COLUMNS}
        known = [pair for pair in (seen | self._known).items() if pair[0] not in masked]
        self._known = dict(known[:_SHAPES])


def _rest(shape: VersionShape, values: dict[str, Any]) -> str:
    """SQL that writes the line of a row of this shape from its table on."""
    names = [str(column["name"]) for column in shape.columns]
    key = [name for name in names if name in shape.key_columns]
    table = {"schema": shape.schema, "table": shape.table, "relation_oid": shape.oid,
             "version": shape.number}  # fmt: skip

    def text(value: object) -> str:
        values[f"p{len(values)}"] = value
        return f"%(p{len(values) - 1})s"

    def image(side: str, columns: Sequence[str]) -> str:
        """NULL where one of them was not sent."""
        begins = ["{", *("," * len(columns))]
        values_of = (f"{text(f'{begin}{_json(name)}:')} || ({side} -> {text(name)}::text)::text"
                     for begin, name in zip(begins, columns, strict=False))  # fmt: skip
        return " || ".join([*values_of, "'}'"]) if columns else "'{}'"

    mine = "'null'"
    if shape.key_columns:
        mine = f"""CASE WHEN c.old IS NULL THEN {image("c.new", shape.key_columns)}
            ELSE {image("c.old", shape.key_columns)} END"""
    only_key = f"c.old_kind::text = 'K' AND c.old - {text(key)}::text[] = '{{}}'"
    not_sent = _json([name for name in names if name not in key])
    whole = ',"not_sent":[]}\n'
    deleted = text(f'null,"not_sent":{not_sent}}}\n'), text(f"null{whole}")
    return f"""{text(f'",{_json(table)[1:-1]},"key":')} || {mine} || ',"old":' || CASE
        WHEN c.old IS NULL THEN 'null' WHEN {only_key} THEN {image("c.old", key)}
        WHEN c.old_kind::text = 'O' THEN {image("c.old", names)} END || ',"new":' || CASE
        WHEN c.op::text <> 'D' THEN {image("c.new", names)} || {text(whole)}
        WHEN c.new IS NULL THEN CASE c.old_kind::text WHEN 'K' THEN {deleted[0]}
            WHEN 'O' THEN {deleted[1]} END END"""


def _json(value: object) -> str:
    return orjson.dumps(value).decode()

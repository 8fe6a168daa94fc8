"""JSON lines that the store writes for whole transactions of small rows.

Most changes are such rows, sent whole or by their key. For each transaction the store returns the
text of its lines, each from ``,"seq"`` on, equal byte for byte to what ``records`` makes of the
values; no Python object per value is needed.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from replview.store.read.changes.records import OPERATIONS
from replview.store.read.relation_shapes import VersionShape
from replview.store.read.rows import ChangeRow
from replview.store.read.session import ReadSession, array_text

#: Shapes that one statement includes, the last seen ones, and columns of each at most.
_SHAPES, _COLUMNS = 16, 60
#: Stored bytes of a change at most: a longer one is compressed or out of line, and would be fetched
#: once for each column.
_MOST_BYTES = 1500
#: Text in a line that shows a marked value; within a text value the quote would be escaped.
_MARK = '":{"$'
#: ``{line}`` is SQL over ``change c``, NULL where the store cannot write the line.
_READ = """
    SELECT l.transaction_id, min(l.seq),
        CASE WHEN count(l.line) = count(*) THEN string_agg(l.line, '' ORDER BY l.seq) END
    FROM (SELECT c.transaction_id, c.seq, {line} AS line {rest} OFFSET 0) l
    GROUP BY l.transaction_id
"""
_OPERATION_CASES = " ".join(f"WHEN '{letter}' THEN '{OPERATIONS[letter]}'" for letter in "IUDS")
_LINE = f"""
    CASE WHEN coalesce(pg_column_size(c.new), 0) + coalesce(pg_column_size(c.old), 0)
        < {_MOST_BYTES} THEN ',"seq":' || c.seq || ',"lsn":"' || c.lsn
        || '","subxid":' || coalesce(c.subxid::text, 'null') || ',"op":"'
        || CASE c.op::text {_OPERATION_CASES} END || CASE c.version_id {{shapes}} END END
"""


@dataclass(slots=True)
class StoreLines:
    """The shapes whose lines the store can write, and the SQL for them."""

    _known: dict[int, VersionShape] = field(default_factory=dict)

    def written(
        self, session: ReadSession, ids: list[int], from_sql: str, values: Mapping[str, Any]
    ) -> tuple[list[ChangeRow], list[int]]:
        """Return the transactions whose lines the store wrote, and the identifiers of the others.

        ``from_sql`` is a statement from its FROM on. Each returned change stands for a transaction,
        with ``lines``.
        """
        if not self._known or not session.visibility.open:
            return [], ids
        params = {**values, "ids": array_text(ids)}
        shapes = (
            f"WHEN {shape.id:d} THEN {_line_sql(shape, params)}" for shape in self._known.values()
        )
        line = _LINE.format(shapes=" ".join(shapes))
        blocks, unwritten = [], []
        for transaction_id, seq, lines in session.rows(
            _READ.format(line=line, rest=from_sql), params
        ):
            # The visibility is checked again: a column may have been masked meanwhile.
            if lines and _MARK not in lines and session.visibility.open:
                row = transaction_id, seq, "", None, "", *[None] * 10, [], [], False, False, lines
                blocks.append(ChangeRow._make(row))
            else:
                unwritten.append(transaction_id)
        return blocks, unwritten

    def learn(self, shapes: Iterable[VersionShape], masked: Collection[int]) -> None:
        """Note the shapes of changes that the store did not write.

        Shapes with a masked value are left out until a change comes without one: it would be read
        twice.
        """
        by_id = {shape.id: shape for shape in shapes if 0 < len(shape.columns) <= _COLUMNS}
        pairs = [pair for pair in (by_id | self._known).items() if pair[0] not in masked]
        self._known = dict(pairs[:_SHAPES])


def _line_sql(shape: VersionShape, params: dict[str, Any]) -> str:
    """Return SQL that writes the line of a row of this shape from its table on."""
    names = [str(column["name"]) for column in shape.columns]
    key = [name for name in names if name in shape.key_columns]
    table = {"schema": shape.schema, "table": shape.table, "relation_oid": shape.oid,
             "version": shape.number}  # fmt: skip

    def text(value: object) -> str:
        params[f"p{len(params)}"] = value
        return f"%(p{len(params) - 1})s"

    def image(side: str, columns: Sequence[str]) -> str:
        """Return SQL for one side of the change; it is NULL where a column was not sent."""
        begins = ["{", *("," * len(columns))]
        values_of = (f"{text(f'{begin}{_json(name)}:')} || ({side} -> {text(name)}::text)::text"
                     for begin, name in zip(begins, columns, strict=False))  # fmt: skip
        return " || ".join([*values_of, "'}'"]) if columns else "'{}'"

    key_sql = "'null'"
    if shape.key_columns:
        key_sql = f"""CASE WHEN c.old IS NULL THEN {image("c.new", shape.key_columns)}
            ELSE {image("c.old", shape.key_columns)} END"""
    only_key = f"c.old_kind::text = 'K' AND c.old - {text(key)}::text[] = '{{}}'"
    not_sent = _json([name for name in names if name not in key])
    all_sent = ',"not_sent":[]}\n'
    deleted = text(f'null,"not_sent":{not_sent}}}\n'), text(f"null{all_sent}")
    return f"""{text(f'",{_json(table)[1:-1]},"key":')} || {key_sql} || ',"old":' || CASE
        WHEN c.old IS NULL THEN 'null' WHEN {only_key} THEN {image("c.old", key)}
        WHEN c.old_kind::text = 'O' THEN {image("c.old", names)} END || ',"new":' || CASE
        WHEN c.op::text <> 'D' THEN {image("c.new", names)} || {text(all_sent)}
        WHEN c.new IS NULL THEN CASE c.old_kind::text WHEN 'K' THEN {deleted[0]}
            WHEN 'O' THEN {deleted[1]} END END"""


def _json(value: object) -> str:
    return orjson.dumps(value).decode()

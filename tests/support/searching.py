"""Looking for a planted string everywhere: every column of the store, every byte of every file."""

from pathlib import Path

import pyarrow.parquet as pq
from django.db import connection

_COLUMNS = """
    SELECT c.relname, a.attname, t.typname
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
      AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY 1, 2
"""


def columns_holding(text: str) -> list[str]:
    """``table.column`` of every column of the store in which the text stands, as text or bytes."""
    found = []
    with connection.cursor() as cursor:
        cursor.execute(_COLUMNS)
        for table, column, kind in cursor.fetchall():
            read = (
                f"position(convert_to(%s, 'UTF8') IN \"{column}\") > 0"
                if kind == "bytea"
                else f'position(%s IN "{column}"::text) > 0'
            )
            cursor.execute(f'SELECT EXISTS (SELECT FROM "{table}" WHERE {read})', [text])
            if cursor.fetchone()[0]:
                found.append(f"{table}.{column}")
    return found


def files_holding(text: str, *folders: Path) -> list[str]:
    """Files below the folders in whose bytes, values, statistics or metadata the text stands."""
    found = []
    for folder in folders:
        for path in sorted(Path(folder).rglob("*")):
            if not path.is_file():
                continue
            # Pages are compressed, footers are not: the bytes tell of statistics and metadata.
            held = text.encode() in path.read_bytes()
            if path.suffix == ".parquet":
                table = pq.read_table(path, partitioning=None)
                held |= text in str(table.to_pydict())
            if held:
                found.append(str(path))
    return found

"""Printed programs, run over the worst that a table can hold."""

from typing import Any

import pyarrow as pa
import pytest

from replview.spark.reading_programs import Program

ODD = "a \"b`.c'\\"
LONG = "repeat('long', 3000)"


def statements() -> list[str]:
    """Keys beyond 2^53 that move, unchanged TOAST, deletes, TRUNCATE, identities, new columns."""
    odd = '"' + ODD.replace('"', '""') + '"'
    big = 9007199254740993
    return [
        f"INSERT INTO t (id, mail, {odd}, big) SELECT n, 'm' || n, 'x' || n, {LONG} || n"
        " FROM generate_series(1, 20) n",
        "UPDATE t SET price = 'NaN' WHERE id <= 2",
        "TRUNCATE t",
        f"INSERT INTO t (id, mail, {odd}, big, price) SELECT n, 'm' || n, 'x' || n, {LONG} || n, n"
        " FROM generate_series(1, 30) n",
        f"INSERT INTO t (id, mail, big) VALUES ({big}, 'far', {LONG}), ({big} + 2, 'farther', 'b')",
        "UPDATE t SET price = price + 1 WHERE id <= 5",
        "UPDATE t SET price = 'NaN', at = 'infinity' WHERE id IN (1, 7)",
        # A key that moves, with a value that is not sent, and its place taken by another row.
        "BEGIN; UPDATE t SET id = 1000 WHERE id = 3; UPDATE t SET id = 3 WHERE id = 4; COMMIT",
        f"UPDATE t SET id = {big} + 4 WHERE id = {big}",
        "UPDATE t SET mail = 'moved' || id WHERE id IN (5, 6, 1000)",
        "DELETE FROM t WHERE id IN (8, 9)",
        "INSERT INTO t (id, mail, big) VALUES (9, 'again', NULL)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "UPDATE t SET price = 3 WHERE id IN (10, 11)",
        "UPDATE t SET id = 2000 WHERE id = 12",
        "DELETE FROM t WHERE id = 13",
        "ALTER TABLE t ADD COLUMN extra text",
        "UPDATE t SET extra = 'e' WHERE id IN (14, 15)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_mail",
        "UPDATE t SET price = 5, mail = 'm' || mail WHERE id IN (16, 17)",
        "DELETE FROM t WHERE id IN (18, 2000)",
        "UPDATE t SET price = 6 WHERE id IN (19, 1000)",
    ]


def run(program: Program, spark: Any = None) -> Any:
    """Run a printed program and return its ``changes``."""
    if program.language == "sql":
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect() as session:
            session.execute("SET timezone = 'UTC'")
            return session.sql(program.code).to_arrow_table()
    names: dict[str, Any] = {"spark": spark}
    exec(compile(program.code, program.name, "exec"), names)
    return names["changes"]


def as_arrow(found: Any) -> pa.Table:
    """The rows of any engine."""
    if isinstance(found, pa.Table):
        return found
    if hasattr(found, "to_arrow_table"):
        return found.to_arrow_table()
    if hasattr(found, "toArrow"):
        return found.toArrow()
    if hasattr(found, "to_arrow"):
        return found.to_arrow()
    return pa.Table.from_pandas(found, preserve_index=False)

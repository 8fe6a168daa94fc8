"""The hooks stand alone, and tell writing from reading alike."""

import ast
import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from replview.actors import django, sqlalchemy

FILES = [Path(module.__file__) for module in (django, sqlalchemy)]


def roots_of_imports(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.split(".")[0] for name in names}


def test_no_hook_imports_anything_of_replview() -> None:
    known = sys.stdlib_module_names | {"django", "asgiref", "sqlalchemy"}
    forbidden = [
        f"{file.name} must not import {name}"
        for file in FILES
        for name in sorted(roots_of_imports(file) - known)
    ]
    assert not forbidden, "\n".join(forbidden)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_hook_works_as_a_copied_file(file: Path, tmp_path: Path) -> None:
    shutil.copy(file, tmp_path / "who_writes.py")
    program = (
        "import sys\n"
        "from django.conf import settings; settings.configure()\n"
        "import who_writes\n"
        "assert who_writes.writes('INSERT INTO t VALUES (1)')\n"
        "assert not any(name.split('.')[0] in ('replview', 'decoder') for name in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_both_have_the_same_words_for_writing() -> None:
    for name in ("writes", "message_sql", "_savepoint_of"):
        assert inspect.getsource(getattr(django, name)) == inspect.getsource(
            getattr(sqlalchemy, name)
        )
    for name in (
        "_QUOTED_OR_COMMENT",
        "_WRITE",
        "_COPY",
        "_WRITE_IN_WITH",
        "_PLAIN_READ",
        "_SAVEPOINT_WORDS",
    ):
        assert getattr(django, name) == getattr(sqlalchemy, name)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (1)",
        "  -- who\n insert into t select 1",
        "/* hint */ UPDATE t SET a = 1",
        "DELETE FROM t",
        "MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE",
        "TRUNCATE t",
        "COPY t FROM STDIN",
        "WITH x AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM x",
        "WITH x AS (SELECT 1) UPDATE t SET a = 1",
        "with x as (select 1)\ninsert into t table x",
        "WITH x AS (SELECT 1) DELETE FROM t",
        "SELECT 1; DELETE FROM t",
        "SELECT ';'; DELETE FROM t",
    ],
)
def test_it_writes(statement: str) -> None:
    assert django.writes(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1",
        "SELECT * FROM t FOR UPDATE",
        "SELECT 'x; DELETE FROM t'",
        'SELECT "a; INSERT INTO" FROM t',
        "WITH x AS (SELECT 1) SELECT * FROM x FOR NO KEY UPDATE",
        "WITH x AS (SELECT '(INSERT INTO') SELECT * FROM x",
        "WITH x AS (SELECT * FROM t FOR UPDATE) SELECT * FROM x",
        "COPY t TO STDOUT",
        "SAVEPOINT a",
        "VACUUM t",
        "SET x = 1",
        "EXPLAIN UPDATE t SET a = 1",
        "",
    ],
)
def test_it_reads(statement: str) -> None:
    assert not django.writes(statement)

"""No cause and no remedy of a problem holds a row's value: they are shown, kept and logged.

Values are untrusted, and may be masked. What quotes them is a server's text about data, Spark's,
and what could be copied out of a message: the first is told by its SQLSTATE alone, the rest not.
"""

import ast
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from string import Formatter

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import errors

from decoder.decode import decode_message
from decoder.plugins.test_decoding import TestDecodingAssembler
from decoder.plugins.wal2json import Wal2JsonAssembler
from decoder.reader import ProtocolError
from decoder.scalars import LSN, XID
from replview.catalog.problems import TEXTS_WITHOUT_VALUES, explain
from replview.receiver.problems import TROUBLES, name_trouble
from replview.receiver.storing.store_batch import StoreRefused

#: A row's value; longer than a tag, which errors do name.
VALUE = "xyzzy-4111-1111"
_UPDATE = (
    b"U\x00\x00\x40\x00O\x00\x02t\x00\x00\x00\x011t\x00\x00\x00\x0f" + VALUE.encode()
    + b"N\x00\x02t\x00\x00\x00\x011t\x00\x00\x00\x0f" + VALUE.encode()
)  # fmt: skip
_TEST_DECODING = f"table public.users: INSERT: id[integer]:1 card[text]:'{VALUE}' n[integer]:2"
_WAL2JSON = (
    '{"action":"I","schema":"public","table":"users","columns":[{"name":"id","type":"integer",'
    f'"value":1}},{{"name":"card","type":"text","value":"{VALUE}"}}]}}'
)


@given(at=st.integers(0, len(_UPDATE) - 1), byte=st.integers(0, 255), cut=st.booleans())
def test_no_malformed_message_of_pgoutput_tells_a_value(at: int, byte: int, cut: bool) -> None:
    payload = _UPDATE[:at] if cut else _UPDATE[:at] + bytes([byte]) + _UPDATE[at + 1 :]
    assert VALUE[:4] not in _refusal(lambda: decode_message(payload))


def _refusal(decode: Callable[[], object]) -> str:
    try:
        decode()
    except ProtocolError as error:
        return str(error)
    return ""


@given(at=st.integers(0, len(_WAL2JSON) - 1), character=st.sampled_from(["", "'", '"', "}", "x"]))
def test_no_malformed_row_of_a_plugin_tells_a_value(at: int, character: str) -> None:
    for assembler, begin, row in (
        (TestDecodingAssembler(), "BEGIN 7", _TEST_DECODING),
        (Wal2JsonAssembler(format_version=2), '{"action":"B","xid":7}', _WAL2JSON),
    ):
        wrong = row[: at % len(row)] + character + row[at % len(row) + 1 :]
        rows = [(LSN(1), XID(7), begin), (LSN(2), XID(7), wrong)]
        assert VALUE[:4] not in _refusal(partial(assembler.feed, rows))


def _errors_about_data() -> Iterator[type[psycopg.Error]]:
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, psycopg.Error):
            code = getattr(kind, "sqlstate", None)
            if code and code[:2] not in TEXTS_WITHOUT_VALUES:
                yield kind


def test_what_a_server_says_of_data_is_told_by_its_sqlstate_alone() -> None:
    kinds = list(_errors_about_data())
    assert len(kinds) > 150
    for kind in kinds:
        error = kind(f'invalid input syntax for type integer: "{VALUE}"')
        for told in (
            explain(error, "host=h dbname=d user=u"),
            name_trouble(error, conninfo="host=h", slot="s", publications=[]),
            name_trouble(StoreRefused(error), conninfo="host=h", slot="s", publications=[]),
        ):
            assert VALUE not in f"{told.cause} {told.remedy}", kind


#: The folders whose code handles rows.
_FOLDERS = ("decoder", "replview/receiver", "replview/parquet", "replview/store/read",
            "replview/spark")  # fmt: skip
_PROBLEMS = {"Problem", "SourceProblem", "StoreProblem", "TargetProblem", "Incompatible",
             "SparkProblem", "KeyProblem", "WhereProblem", "_NoValueOfType", "ProtocolError",
             "Culprit"}  # fmt: skip
#: Names of what holds values, or of an error whose text may quote one.
_SUSPECT = {"error", "exc", "value", "values", "row", "rows", "raw", "payload", "content", "old",
            "new", "data", "cell", "cells", "text"}  # fmt: skip
#: Looked at: the text is made by us without a value, or is what whoever asks has just typed.
_LOOKED_AT = {
    ("replview/receiver/culprits.py", "error"),  # ProtocolError
    ("replview/receiver/problems.py", "error"),  # ProtocolError, StoreRefused
    ("replview/spark/options.py", "text"),  # typed
    ("replview/spark/sessions.py", "error"),  # Spark does not start: there is no row yet
    ("replview/store/read/value_filter.py", "text"),  # typed
    ("replview/store/read/value_sql.py", "value"),  # typed
}


def _suspects() -> Iterator[tuple[str, str]]:
    """``(file, name)`` of each name of that kind put into a problem's text."""
    root = Path(__file__).parents[2]
    for folder in _FOLDERS:
        for path in (root / folder).rglob("*.py"):
            for call in ast.walk(ast.parse(path.read_text())):
                if isinstance(call, ast.Call) and _called(call) in _PROBLEMS:
                    for name in _told_in(call):
                        yield str(path.relative_to(root)), name


def _called(call: ast.Call) -> str:
    return getattr(call.func, "id", "") or getattr(call.func, "attr", "")


def _told_in(call: ast.Call) -> Iterator[str]:
    """Names whose text is told: formatted, or given as ``str()`` makes them."""
    for given_to in (*call.args, *(k.value for k in call.keywords if k.arg in ("cause", "remedy"))):
        for node in ast.walk(given_to):
            shown = node.value if isinstance(node, ast.FormattedValue) else None
            if isinstance(node, ast.Call) and _called(node) in ("str", "repr") and node.args:
                shown = node.args[0]
            names = shown if shown is not None else ast.Constant("")
            # ``type(error).__name__``, ``error.sqlstate`` and the like tell no text of it.
            if isinstance(names, ast.Subscript | ast.Call):
                names = next((n for n in ast.walk(names) if isinstance(n, ast.Name)), names)
            if isinstance(names, ast.Name) and names.id in _SUSPECT:
                yield names.id


def test_no_problem_is_made_of_a_value_or_of_another_errors_text() -> None:
    found = set(_suspects())

    assert found - _LOOKED_AT == set()
    assert _LOOKED_AT - found == set(), "no longer there"


def test_no_trouble_of_a_slot_has_a_place_for_a_value() -> None:
    places = {
        field
        for sentences in TROUBLES.values()
        for text in sentences
        for _, field, _, _ in Formatter().parse(text)
    }

    assert places & _SUSPECT == set()


@pytest.mark.parametrize(
    ("words", "told"),
    [("[CAST_INVALID_INPUT] The value 'xyzzy-4111-1111' of the type", "CAST_INVALID_INPUT"),
     ("xyzzy-4111-1111 went wrong", "AnalysisException")],
)  # fmt: skip
def test_of_sparks_errors_the_condition_is_told(words: str, told: str) -> None:
    results = pytest.importorskip("replview.spark.history.results")
    error = type("AnalysisException", (Exception,), {})(words)

    assert results.condition_of(error) == told

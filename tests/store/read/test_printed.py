"""A key is compared as its type: whatever is typed, the row that it means is found."""

import pytest

from replview.access.visibility import reading_session
from replview.store.read.row_history.history import row_history
from replview.store.read.row_history.keys import KeyProblem, tables_named

pytestmark = pytest.mark.slow

#: Type, a value, how else one may type it, and what is no value of the type.
KEYS = [
    ("char(6)", "ab", ["ab", "ab    "], "abcdefgh"),
    ("uuid", "6f1c5f0e-9d0a-4f0e-8f0e-1d2c3b4a5968",
     ["6F1C5F0E-9D0A-4F0E-8F0E-1D2C3B4A5968", "6f1c5f0e9d0a4f0e8f0e1d2c3b4a5968"], "6f1c"),
    ("timestamptz", "2026-01-02 01:00:00+00",
     ["2026-01-02T01:00:00Z", "2026-01-02 02:00:00+01"], "January"),
    ("numeric(10,2)", "5", ["5", "5.0", "5.00", "05"], "5.005"),
    ("boolean", "true", ["true", "t", "yes"], "perhaps"),
    ("date", "2026-01-02", ["2026-1-2", "2026-01-02"], "2026-13-01"),
    ("integer", "42", ["42", "042", " 42"], "abc"),
    ("double precision", "0.5", ["0.5", ".5", "5e-1"], "half"),
    ("inet", "::1", ["::1", "::1/128", "0:0:0:0:0:0:0:1"], "localhost"),
    ("interval", "90 minutes", ["90 minutes", "01:30:00", "1.5 hours"], "soon"),
    ("bytea", r"\x0aff", [r"\x0aff", r"\x0AFF"], r"\xzz"),
    ("int4range", "[1,5]", ["[1,5]", "[1,6)"], "1-5"),
    ("varchar(3)", "abc", ["abc"], "abcd"),
]  # fmt: skip


def test_a_key_is_compared_as_its_type(source, record) -> None:
    for number, (kind, *_) in enumerate(KEYS):
        source.run(f"CREATE TABLE k{number} (id {kind} PRIMARY KEY, a text)")
    recording = record(source)
    for number, (_, value, _, _) in enumerate(KEYS):
        source.run(f"INSERT INTO k{number} VALUES ('{value}', 'x')")
    recording.caught_up()
    recording.end()
    session = reading_session()
    for number, (kind, _, forms, wrong) in enumerate(KEYS):
        table = tables_named(session, recording.slot, f"public.k{number}")
        assert table is not None
        for form in forms:
            key = table.printed(session, {"id": form})
            found = row_history(session, recording.slot, table.relation.pk, key)
            assert [entry.step.op for entry in found.entries] == ["I"], (kind, form)
        with pytest.raises(KeyProblem, match="typed for id is no"):
            table.printed(session, {"id": wrong})

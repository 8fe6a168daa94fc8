"""A statement of a plan: its text, the rights it needs, what it costs, how it is taken back."""

from dataclasses import dataclass

from psycopg import sql


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One statement on the source, and the statement that takes it back."""

    statement: sql.Composed
    undo: sql.Composed
    needs: str
    costs: str
    #: What it makes: ``publication`` or ``slot``, and its name.
    kind: str
    name: str

    def __str__(self) -> str:
        return self.statement.as_string(None)

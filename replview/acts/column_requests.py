"""Which columns somebody wants kept, masked or left out: named one by one, or all of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replview.catalog.connections import Connection
from replview.catalog.naming import table_text
from replview.catalog.plan.column_rules import known_columns
from replview.catalog.plan.slot_request import parse_columns, refuse
from replview.catalog.published import Published, read_published
from replview.catalog.tables import read_tables
from replview.store.models import Slot

KEEP, MASK, DROP = "keep", "mask", "drop"
#: ``{table (as ``table_text`` writes it): {column: "mask" | "drop"}}``: all rules of these tables.
Rules = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedColumns:
    """Columns by ``schema.table.column``; every other one stays as it is."""

    keep: Sequence[str] = ()
    mask: Sequence[str] = ()
    exclude: Sequence[str] = ()

    def rules(self, connection: Connection, slot: Slot) -> dict[str, dict[str, str]]:
        """All rules of their tables as they would be. Raises ``SourceTrouble``."""
        wanted: dict[tuple[str, str], dict[str, str]] = {}
        for rule, texts in ((KEEP, self.keep), (MASK, self.mask), (DROP, self.exclude)):
            for key, columns in parse_columns(list(texts)).items():
                for column in columns:
                    if wanted.setdefault(key, {}).setdefault(column, rule) != rule:
                        raise refuse(
                            "contradiction",
                            f"{table_text(*key)}.{column} is named twice, for different things",
                            "Name each column once",
                        )
        named = {key: frozenset(columns) for key, columns in wanted.items()}
        tables = read_tables(connection)
        _, published = read_published(connection, slot.publications)
        found = {}
        for table, _ in known_columns(tables, named, "Correct it: schema.table.column"):
            key = table.schema, table.name
            rules = dict(slot.column_rules.get(".".join(key), {}))
            rules |= dict.fromkeys(unsent_columns(published.get(key)), DROP)
            rules |= wanted[key]
            # Rules of columns that are gone go with them.
            found[table.text] = {
                name: rules[name] for name in table.columns if rules.get(name, KEEP) != KEEP
            }
        return found


def unsent_columns(published: Published | None) -> set[str]:
    """Those a publication leaves out of a table by its list."""
    if published is None or published.columns is None:
        return set()
    return set(published.table.columns) - set(published.columns) - published.table.generated

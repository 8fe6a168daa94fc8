"""Find the row that an address or a form names by table and key."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from django.utils.text import capfirst

from replview.access.visibility import reading_session
from replview.store.models import Relation, Slot
from replview.store.read.row_history import keys
from replview.text.addresses import row_url
from replview.text.formats import shortened
from replview.text.parsing import clean_text, table_word
from replview.ui.params import Params

#: Most tables in the menu.
_OFFERED = 300
#: Most rows offered as examples.
_EXAMPLES = 8


@dataclass(slots=True)
class Start:
    """The table and key that were named, and the row found or why there is none."""

    slot: Slot
    #: The table and key as they were typed.
    table_name: str = ""
    key_text: str = ""
    table: keys.TableRows | None = None
    key: dict[str, str | None] | None = None
    #: Why no row can be shown, and a remedy; empty without a problem.
    problem: str = ""
    remedy: str = ""
    tables: list[str] = field(default_factory=list)
    #: ``(words, address)`` of rows that were changed lately.
    examples: list[tuple[str, str]] = field(default_factory=list)

    @property
    def key_words(self) -> str:
        """Return the key in words: ``id = 42``."""
        items = (self.key or {}).items()
        return ", ".join(f"{name} = {'null' if v is None else v}" for name, v in items)

    @property
    def typed_key(self) -> str:
        """Return the key as a user would type it."""
        if not self.key:
            return self.key_text
        if len(self.key) == 1:
            return next(iter(self.key.values())) or ""
        return ", ".join(
            f"{name}='{value.replace(chr(39), chr(39) * 2)}'" if value and "," in value
            else f"{name}={value or ''}"
            for name, value in self.key.items()
        )  # fmt: skip

    @property
    def name(self) -> str:
        """Return the table's name: ``public.orders``."""
        if self.table is None:
            return self.table_name
        return table_word(self.table.relation.schema, self.table.relation.table)

    @property
    def short_name(self) -> str:
        """Return the row's name in a sentence: ``orders 42``."""
        values = ", ".join("null" if v is None else v for v in (self.key or {}).values())
        return f"{self.table.relation.table if self.table else ''} {shortened(values, 60)}"


def read_start(slot: Slot, words: Mapping[str, object]) -> Start:
    """Return the row that an address's parameters name, or why there is none."""
    start = Start(slot, Params(words).text("table", 300))
    tables = list(Relation.objects.filter(slot=slot).order_by("schema", "table")[:_OFFERED])
    start.tables = list(dict.fromkeys(table_word(row.schema, row.table) for row in tables))
    if not start.table_name:
        return start
    candidates = tables if len(tables) < _OFFERED else None
    start.table = keys.tables_named(reading_session(), slot, start.table_name, candidates)
    if start.table is None:
        start.problem = f"No change of a table {start.table_name} is recorded."
        start.remedy = "A table appears here with its first published change. Choose another one."
        return start
    if reason := start.table.withheld(reading_session()):
        start.problem = f"{capfirst(reason)}."
        start.remedy = "The transactions that touched the table show that something changed."
        return start
    _read_key(start, words)
    if start.key is None:
        _add_examples(start)
    return start


def _read_key(start: Start, words: Mapping[str, object]) -> None:
    assert start.table is not None
    columns = start.table.key_columns
    if not columns:
        _explain_no_key(start)
        return
    names = [name for name in words if name.startswith("key.")]
    key_values = {
        name[4:]: clean_text(words[name], keys.KEY_CHARACTERS, strip=False) for name in names
    }
    start.key_text = Params(words).text("key", keys.KEY_CHARACTERS, strip=False)
    if key_values and not start.key_text:
        # An address may name a key that the table had in an earlier version.
        if start.table.hashes(key_values):
            start.key_text = ", ".join(f"{name}={value}" for name, value in key_values.items())
            _take_key(start, lambda: key_values)
            return
        start.key_text = ", ".join(f"{name}={value}" for name, value in key_values.items())
    if not start.key_text.strip():
        return
    _take_key(start, lambda: keys.parse_key(start.key_text, columns))


def _take_key(start: Start, read: Callable[[], Mapping[str, str | None]]) -> None:
    assert start.table is not None
    try:
        start.key = start.table.printed(reading_session(), read())
    except keys.KeyProblem as problem:
        start.problem = f"{capfirst(str(problem))}."
        start.remedy = "Type the key as the examples show."


def _explain_no_key(start: Start) -> None:
    assert start.table is not None
    version = start.table.version
    identity = version.replica_identity if version else "unknown"
    start.problem = f"Rows of {start.name} cannot be identified."
    start.remedy = {
        "NOTHING": "Its replica identity is NOTHING: the server sends no key with a change. Give "
        "it a primary key, or an index as its identity.",
        "FULL": "Its replica identity is FULL and it has no published primary key, so it is "
        "unknown which columns identify a row. Add a primary key.",
        "DEFAULT": "It has no primary key, so under replica identity DEFAULT no key is sent. A "
        "primary key solves this.",
    }.get(identity, "Its key is not stored: it has none, or the slot's rules mask it.")


def _add_examples(start: Start) -> None:
    """Add recently changed rows as examples of a key."""
    assert start.table is not None
    relation = start.table.relation
    for key in keys.changed_lately(reading_session(), start.table, _EXAMPLES):
        url = row_url(start.slot, relation.schema, relation.table, key)
        text = ", ".join(f"{name} = {value}" for name, value in key.items())
        start.examples.append((text, url))

"""What a table's replica identity means for the record: a sentence, a warning, the way on."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from replview.catalog.naming import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityWarning:
    """Something that the record cannot do for the table, or that it costs."""

    #: ``look``: it stands in the way of an audit; ``note``: to be known.
    level: str
    word: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityWords:
    """A replica identity in words."""

    #: ``DEFAULT, primary key (id)``.
    now: str
    #: What the stream has of the old row.
    old_row: str
    #: Of the sentence over the page.
    level: str
    cause: str
    next: str = ""
    warnings: tuple[IdentityWarning, ...] = ()
    #: (what it does, SQL): to be copied, never run by us.
    statements: tuple[tuple[str, str], ...] = ()


_NOT_TOLD_APART = IdentityWarning(
    level="look",
    word="rows not told apart",
    why="no key is known, so a row has no history of its own",
)
_APART = "its rows cannot be told apart"
_FAILS = "an UPDATE or DELETE of it fails on the source as long as that is published"


def identity_words(
    schema: str,
    table: str,
    replica_identity: str,
    key_columns: Sequence[str],
    ruled_columns: Collection[str] = (),
) -> IdentityWords:
    """``ruled_columns``: those that column rules drop or mask."""
    name = quoted(schema, table)
    key = ", ".join(key_columns)
    hidden = [column for column in key_columns if column in ruled_columns]
    full = (("Send whole old rows", f"ALTER TABLE {name} REPLICA IDENTITY FULL;"),)
    add_key = (("Give it a key", f"ALTER TABLE {name} ADD PRIMARY KEY (column, …);"),)
    match replica_identity:
        case "NOTHING":
            words = _nothing(name, full)
        case "FULL":
            words = _full(name, key, add_key)
        case "INDEX":
            words = _index(key, full)
        case "DEFAULT":
            words = _default(key, full, add_key)
        case _:
            words = _untold(key)
    if hidden:
        words = _with_hidden_key(words, hidden)
    return words


def _nothing(name: str, full: tuple[tuple[str, str], ...]) -> IdentityWords:
    return IdentityWords(
        now="NOTHING",
        old_row="none: only inserts and truncates can be received",
        level="look",
        cause=f"Replica identity NOTHING: {_FAILS}, and rows cannot be told apart.",
        next="let its primary key identify it, or FULL.",
        warnings=(IdentityWarning(level="look", word="NOTHING", why=f"{_FAILS}, and {_APART}"),),
        statements=(
            ("Let its primary key identify it", f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT;"),
            *full,
        ),
    )


def _full(name: str, key: str, add_key: tuple[tuple[str, str], ...]) -> IdentityWords:
    cost = IdentityWarning(
        level="note", word="FULL", why="every update and delete writes the whole old row to WAL"
    )
    if key:
        return IdentityWords(
            now=f"FULL, rows known by primary key ({key})",
            old_row="whole, with every update and delete",
            level="ok",
            cause="Replica identity FULL sends the whole old row with every update and delete, "
            "which costs WAL.",
            warnings=(cost,),
            statements=(
                ("Send keys alone again", f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT;"),
            ),
        )
    return IdentityWords(
        now="FULL, without a primary key",
        old_row="whole, with every update and delete",
        level="look",
        cause="Replica identity FULL sends whole old rows, but without a primary key rows cannot "
        "be told apart: there is no row history.",
        next="give it a primary key.",
        warnings=(cost, _NOT_TOLD_APART),
        statements=add_key,
    )


def _index(key: str, full: tuple[tuple[str, str], ...]) -> IdentityWords:
    return IdentityWords(
        now=f"INDEX on ({key})" if key else "INDEX, which is gone",
        old_row="the index's columns alone, when one of them changes or the row is deleted",
        level="ok" if key else "look",
        cause="Replica identity INDEX sends the index's columns alone, so before images are "
        "derived." if key else f"The index of its replica identity is gone: {_FAILS}.",
        next="" if key else "name another index, or FULL.",
        warnings=(
            IdentityWarning(
                level="note" if key else "look",
                word="INDEX",
                why="rows are known by an index: without it updates and deletes fail"
                if key else _FAILS,
            ),
            *(() if key else (_NOT_TOLD_APART,)),
        ),
        statements=full,
    )  # fmt: skip


def _default(
    key: str, full: tuple[tuple[str, str], ...], add_key: tuple[tuple[str, str], ...]
) -> IdentityWords:
    if key:
        return IdentityWords(
            now=f"DEFAULT, primary key ({key})",
            old_row="the key alone, when it changes or the row is deleted",
            level="ok",
            cause="Replica identity DEFAULT sends no old values, so before images are derived.",
            next="weigh FULL.",
            statements=full,
        )
    return IdentityWords(
        now="DEFAULT, without a primary key",
        old_row="none: only inserts and truncates can be received",
        level="look",
        cause=f"Replica identity DEFAULT without a primary key: {_FAILS}.",
        next="give it a primary key, or FULL.",
        warnings=(
            IdentityWarning(level="look", word="DEFAULT, no key", why=f"{_FAILS}, and {_APART}"),
        ),
        statements=(*add_key, *full),
    )


def _untold(key: str) -> IdentityWords:
    return IdentityWords(
        now="unknown: this output plugin does not tell",
        old_row="unknown: this output plugin does not tell",
        level="ok" if key else "look",
        cause="Its replica identity is unknown: this output plugin does not tell it.",
        warnings=() if key else (_NOT_TOLD_APART,),
    )


def _with_hidden_key(words: IdentityWords, hidden: list[str]) -> IdentityWords:
    names = ", ".join(hidden)
    why = f"a column rule keeps {names} of its key out of the record: a row has no history"
    warning = IdentityWarning(level="look", word="key not kept", why=why)
    known = {name: getattr(words, name) for name in IdentityWords.__dataclass_fields__}
    told = {"level": "look", "warnings": (*words.warnings, warning)}
    return IdentityWords(**{**known, **told})

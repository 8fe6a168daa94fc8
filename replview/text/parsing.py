"""Texts as people and programs send them, read in one way: what cannot be meant is left out."""

import re
from collections.abc import Collection, Iterable

_QUOTE = '"'
#: What commas separate; in double quotes they separate nothing.
_LISTED = re.compile(r'(?:"(?:[^"]|"")*"|[^,])+')
#: A part of a name in double quotes, whole: a dot or nothing comes after it.
_QUOTED = re.compile(r'"((?:[^"]|"")+)"(?=\.|\Z)', re.DOTALL)


def clean_text(value: object, most: int | None = None, *, strip: bool = True) -> str:
    """The value as text of at most so many characters, without the zero bytes that no text in
    PostgreSQL can hold; None is the empty text.
    """
    text = ("" if value is None else str(value)).replace("\0", "")
    return (text.strip() if strip else text)[:most]


def whole_number(value: object, *, digits: int = 18) -> int | None:
    """A number of at most so many ASCII digits; None: the text is none. 18 fit into a bigint."""
    text = "" if value is None else str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


def name_parts(text: str) -> list[str]:
    """The parts of a name that dots part; in double quotes a dot parts nothing."""
    found = []
    while True:
        quotes = _QUOTED.match(text)
        if quotes is not None:
            found.append(quotes[1].replace('""', '"'))
            rest = text[quotes.end() :]
        else:
            part, dot, rest = text.partition(".")
            found.append(part)
            rest = dot + rest
        if not rest:
            return found
        text = rest[1:]


def plain_name(text: str) -> str:
    """A name as the record has it: ``odd.schema.orders`` of ``"odd.schema".orders``."""
    return ".".join(name_parts(text))


def table_text(schema: str, table: str) -> str:
    """``schema.table``; what holds a dot, a comma or a quote is in double quotes: ``"a.b".c``."""
    parts = (f'"{part.replace(_QUOTE, _QUOTE * 2)}"' if re.search('[.,"]', part) else part
             for part in (schema, table))  # fmt: skip
    return ".".join(parts)


def listed(text: str) -> list[str]:
    """The names of a list with commas, as they were written."""
    return [part for part in map(str.strip, _LISTED.findall(text)) if part]


def table_word(schema: str, table: str) -> str:
    """Return the name by which filters choose this table and no other: ``schema.table``, or as
    ``table_text`` writes it where that may be read as another table's.
    """
    plain = f"{schema}.{table}"
    return table_text(schema, table) if plain.count(".") > 1 or _QUOTE in plain else plain


def read_table_word(text: str) -> str:
    """Return a table's name, as it was typed, as filters have it. A name with several dots and
    without quotes is left as it is: it chooses every table that it may mean.
    """
    first, *rest = name_parts(text)
    if _QUOTE in text and rest:
        return table_word(first, ".".join(rest))
    return plain_name(text)


def is_chosen(words: Collection[str], schema: str, table: str) -> bool:
    """Whether names of a filter choose a table."""
    plain = f"{schema}.{table}"
    return table_word(schema, table) in words or (_QUOTE not in plain and plain in words)


def chosen_tables(words: Iterable[str]) -> list[tuple[str, str | None, str | None]]:
    """Names of a filter with the schema and table that each means; None: those that it may mean
    are found by the name.
    """
    parted = ((word, name_parts(word) if _QUOTE in word else []) for word in words)
    return [
        (word, parts[0], ".".join(parts[1:])) if len(parts) > 1 else (word, None, None)
        for word, parts in parted
    ]

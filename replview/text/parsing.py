"""Parse text that people and programs send, in the same way everywhere."""

import re
from collections.abc import Collection, Iterable
from urllib.parse import parse_qsl

_QUOTE = '"'
#: An item of a comma-separated list; a comma in double quotes does not separate.
_LISTED = re.compile(r'(?:"(?:[^"]|"")*"|[^,])+')
#: A whole part of a name in double quotes, before a dot or the end.
_QUOTED = re.compile(r'"((?:[^"]|"")+)"(?=\.|\Z)', re.DOTALL)

#: The end of a word in the name of a parameter that holds a secret, in any object store's address.
_SECRET = re.compile(r"(key|secret|password|token|sas|sig|signature|credential)($|_|-)", re.I)


def clean_text(value: object, most: int | None = None, *, strip: bool = True) -> str:
    """Return the value as text of at most ``most`` characters; None becomes the empty text.

    Zero bytes are removed, because no text in PostgreSQL can hold them.
    """
    text = ("" if value is None else str(value)).replace("\0", "")
    return (text.strip() if strip else text)[:most]


def whole_number(value: object, *, digits: int = 18) -> int | None:
    """Return a number of at most ``digits`` ASCII digits, or None. 18 digits fit a bigint."""
    text = "" if value is None else str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


def has_secret(query: str) -> bool:
    """Return whether the query of a target's address has a parameter that holds a secret."""
    return any(_SECRET.search(name) for name, _ in parse_qsl(query, keep_blank_values=True))


def name_parts(text: str) -> list[str]:
    """Return the parts of a dotted name; a dot in double quotes does not separate."""
    parts = []
    while True:
        quoted = _QUOTED.match(text)
        if quoted is not None:
            parts.append(quoted[1].replace('""', '"'))
            rest = text[quoted.end() :]
        else:
            part, dot, rest = text.partition(".")
            parts.append(part)
            rest = dot + rest
        if not rest:
            return parts
        text = rest[1:]


def plain_name(text: str) -> str:
    """Return a name as the record has it: ``odd.schema.orders`` for ``"odd.schema".orders``."""
    return ".".join(name_parts(text))


def table_text(schema: str, table: str) -> str:
    """Return ``schema.table``, parts with a dot, comma or quote in double quotes: ``"a.b".c``."""
    parts = (f'"{part.replace(_QUOTE, _QUOTE * 2)}"' if re.search('[.,"]', part) else part
             for part in (schema, table))  # fmt: skip
    return ".".join(parts)


def listed(text: str) -> list[str]:
    """Return the names of a comma-separated list, as they were written."""
    return [part for part in map(str.strip, _LISTED.findall(text)) if part]


def table_word(schema: str, table: str) -> str:
    """Return the name by which filters choose this table and no other.

    Use ``schema.table``, or the form of ``table_text`` where another table could have that name.
    """
    name = f"{schema}.{table}"
    return table_text(schema, table) if name.count(".") > 1 or _QUOTE in name else name


def read_table_word(text: str) -> str:
    """Return a typed table's name in the form of filters.

    A name with several dots and no quotes stays as it is: it chooses every table that it may mean.
    """
    first, *rest = name_parts(text)
    if _QUOTE in text and rest:
        return table_word(first, ".".join(rest))
    return plain_name(text)


def is_chosen(words: Collection[str], schema: str, table: str) -> bool:
    """Return whether names of a filter choose a table."""
    name = f"{schema}.{table}"
    return table_word(schema, table) in words or (_QUOTE not in name and name in words)


def chosen_tables(words: Iterable[str]) -> list[tuple[str, str | None, str | None]]:
    """Return names of a filter, each with the schema and table that it means.

    Both are None where the name may mean several tables, which are found by the name.
    """
    pairs = ((word, name_parts(word) if _QUOTE in word else []) for word in words)
    return [
        (word, parts[0], ".".join(parts[1:])) if len(parts) > 1 else (word, None, None)
        for word, parts in pairs
    ]

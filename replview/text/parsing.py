"""Texts as people and programs send them, read in one way: what cannot be meant is left out."""

import re

_QUOTE = '"'
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

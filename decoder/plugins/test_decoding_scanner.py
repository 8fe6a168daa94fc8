"""A cursor over one row of ``test_decoding``: names, types and literals.

It reads names as the plugin writes them through ``quote_identifier()``,
types through ``format_type_be()``, and values through ``print_literal()``. Offsets
count characters.

Source: PostgreSQL, contrib/test_decoding/test_decoding.c.
"""

from typing import Final

from decoder.messages import UNCHANGED, Value
from decoder.plugins.shapes import SentColumn
from decoder.reader import ProtocolError
from decoder.scalars import us_from_text

_BARE_FIRST: Final = frozenset("abcdefghijklmnopqrstuvwxyz_")
_DIGITS: Final = frozenset("0123456789")
_BARE: Final = _BARE_FIRST | _DIGITS
_NUMBER: Final = frozenset("0123456789+-.e")
_UNQUOTED_VALUES: Final[dict[str, Value]] = {
    "null": None,
    "unchanged-toast-datum": UNCHANGED,
    "true": "t",
    "false": "f",
    "NaN": "NaN",
    "Infinity": "Infinity",
    "-Infinity": "-Infinity",
}
#: Most ``name[type]:`` heads to remember; the limit bounds memory.
_MAX_HEADS: Final = 20_000

_SIZE: Final = b", sz: "
_CONTENT: Final = b" content:"

KIND: Final = "TestDecoding"


class Scanner:
    """A reader of one row, from its beginning to its end. It raises only ``ProtocolError``."""

    def __init__(self, text: str, heads: dict[str, SentColumn]) -> None:
        """Take the row; ``heads`` remembers, over many rows, the column of each ``name[type]:``."""
        self.text = text
        self.at = 0
        self._heads = heads

    def error(self, expected: str) -> ProtocolError:
        """Return, for the caller to raise, the error about the character at the cursor."""
        return ProtocolError(KIND, self.at, expected)

    def skip(self, literal: str) -> bool:
        """Step over ``literal`` if it is at the cursor, and return whether it was."""
        if not self.text.startswith(literal, self.at):
            return False
        self.at += len(literal)
        return True

    def expect(self, literal: str) -> None:
        """Step over ``literal``, which must be at the cursor."""
        if not self.skip(literal):
            raise self.error(repr(literal))

    def end(self) -> None:
        """Raise ``ProtocolError`` if characters are left over."""
        if self.at != len(self.text):
            raise self.error("the end of the row")

    def identifier(self) -> str:
        """Read a name, bare or in quotes."""
        text, start = self.text, self.at
        if self.skip('"'):
            name = self._until_quote('"')
            if not name:
                raise self.error("a name")
            return name
        if text[start : start + 1] not in _BARE_FIRST:
            raise self.error("a name")
        end = start + 1
        while text[end : end + 1] in _BARE and end < len(text):
            end += 1
        self.at = end
        return text[start:end]

    def _until_quote(self, quote: str) -> str:
        """Read up to the closing quote, doubled quotes undone; the opening one was read."""
        text, start = self.text, self.at
        end = text.find(quote, start)
        doubled = False
        while end >= 0 and text.startswith(quote, end + 1):
            doubled = True
            end = text.find(quote, end + 2)
        if end < 0:
            raise self.error(f"a closing {quote}")
        self.at = end + 1
        value = text[start:end]
        return value.replace(quote * 2, quote) if doubled else value

    def quoted_literal(self) -> str:
        """Read a value of ``quote_literal()``, which puts an ``E`` before one with a backslash."""
        escaped = self.skip("E")
        self.expect("'")
        value = self._until_quote("'")
        return value.replace("\\\\", "\\") if escaped else value

    def number(self, limit: int) -> int:
        """Read an unsigned number below ``limit``."""
        start = self.at
        end = start
        while self.text[end : end + 1] in _DIGITS and end < len(self.text) and end - start < 21:
            end += 1
        if end == start or int(self.text[start:end]) >= limit:
            raise self.error(f"a number below {limit}")
        self.at = end
        return int(self.text[start:end])

    def columns(self) -> tuple[tuple[SentColumn, ...], list[Value]]:
        """Read columns and their values, up to the end or to ``new-tuple:``."""
        text, size = self.text, len(self.text)
        heads, find = self._heads, self.text.find
        columns: list[SentColumn] = []
        values: list[Value] = []
        while self.at < size:
            # Text that preceded a value once means the same again, so a known
            # head is the column's head, even if its name contains ``]:``.
            start = self.at
            at = find("]:", start) + 2
            head = heads.get(text[start:at])
            if head is None:
                if text.startswith(" new-tuple:", start):
                    break
                head = self._head()
            else:
                self.at = at
            columns.append(head)
            values.append(self._value())
        return tuple(columns), values

    def _head(self) -> SentColumn:
        """Read `` name[type]:`` with the space before it."""
        start = self.at
        self.expect(" ")
        name = self.identifier()
        self.expect("[")
        type_name = self._type()
        self.expect("]:")
        head = SentColumn(name, type_name, 0)
        if len(self._heads) >= _MAX_HEADS:
            self._heads.clear()
        self._heads[self.text[start : self.at]] = head
        return head

    def _type(self) -> str:
        """Read a type's name: quotes may hold anything, brackets come only in pairs."""
        text, start = self.text, self.at
        while (character := text[self.at : self.at + 1]) != "]":
            if not character:
                raise self.error("a type and its closing ]")
            if character == "[":
                self.expect("[]")
                continue
            self.at += 1
            if character == '"':
                self._until_quote('"')
        if self.at == start:
            raise self.error("a type")
        return text[start : self.at]

    def _value(self) -> Value:
        text, at = self.text, self.at
        first = text[at : at + 1]
        if first == "'":
            self.at = at + 1
            return self._until_quote("'")
        end = text.find(" ", at)
        token = text[at:] if end < 0 else text[at:end]
        if token in _UNQUOTED_VALUES:
            self.at = at + len(token)
            return _UNQUOTED_VALUES[token]
        if token and _NUMBER.issuperset(token):
            self.at = at + len(token)
            return token
        if first == "B" and text.startswith("'", at + 1):
            self.at = at + 2
            return self._until_quote("'")
        raise self.error("a value")

    def time(self) -> int | None:
        """Read the end of a row: `` (at …)``, or nothing. Returns ``None`` for nothing."""
        time_us = None
        if self.skip(" (at "):
            end = self.text.find(")", self.at)
            try:
                time_us = us_from_text(self.text[self.at : max(end, self.at)])
            except ValueError:
                raise self.error("a time and its closing )") from None
            self.at = end + 1
        self.end()
        return time_us

    def prefix_and_content(self) -> tuple[str, bytes]:
        """Read the rest of a message's row: `` prefix: p, sz: 5 content:hello``.

        The prefix may itself contain text that looks like the size and content. The split whose
        size is right counts. No size is right where the content has a NUL
        byte, or the database has another encoding than the session; the first split
        counts then.
        """
        self.expect(" prefix: ")
        try:
            rest = self.text[self.at :].encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise self.error("text that can be encoded") from None
        split: tuple[int, int] | None = None
        size_at = rest.find(_SIZE)
        while size_at >= 0:
            at = rest.find(_CONTENT, size_at, size_at + 40)
            digits = rest[size_at + len(_SIZE) : max(at, 0)]
            if digits.isdigit():
                at += len(_CONTENT)
                is_right = int(digits) == len(rest) - at
                if is_right or split is None:
                    split = size_at, at
                if is_right:
                    break
            size_at = rest.find(_SIZE, size_at + 1)
        if split is None:
            raise self.error("a prefix, a size and a content")
        return rest[: split[0]].decode("utf-8", "surrogateescape"), rest[split[1] :]

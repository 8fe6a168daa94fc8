"""Find images that may contain a text, without regard to case, before PostgreSQL decides.

PostgreSQL compares by ``ILIKE``, which depends on the store's locale, and JSON escapes some
characters. The test here lets an image pass if it may match under any locale; it never rejects one
that PostgreSQL would accept.
"""

import re

import pyarrow as pa
import pyarrow.compute as pc

#: Printable ASCII but the quote and the backslash, which JSON escapes.
_CERTAIN = re.compile(r"[ !#-\[\]-~]+")
#: Characters that are not compared as themselves. Some locales write *i* and *k* in other cases
#: with characters beyond ASCII (İ, ı, the Kelvin sign, marks above). PostgreSQL prints a mark in a
#: value's place with spaces, and its parts in another order.
_UNCERTAIN = {
    "i": r"(?:i[^\x00-\x7F]*|[^\x00-\x7F]+)",
    "k": r"(?:k|[^\x00-\x7F])",
    " ": " ?",
    ",": ",?",
    "{": "{?",
    "}": "}?",
}


def may_contain(images: pa.ChunkedArray, text: str) -> pa.ChunkedArray:
    """Return for each image whether one of its values may contain the text; no image has none."""
    mask = pc.is_valid(images)
    for pattern in _patterns(text):
        matches = pc.match_substring_regex(images, pattern)
        mask = pc.and_(mask, pc.fill_null(matches, False))
    return mask


def _patterns(text: str) -> list[str]:
    """Return regular expressions that every image with the text matches, in RE2's syntax."""
    return [
        "(?i)" + "".join(_UNCERTAIN.get(c, re.escape(c)) for c in part.lower())
        for part in _CERTAIN.findall(text)
    ]

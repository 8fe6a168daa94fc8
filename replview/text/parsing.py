"""Texts as people and programs send them, read in one way: what cannot be meant is left out."""


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

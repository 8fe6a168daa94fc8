"""Pages as text that a test can look into."""

import re


def spaced(page: str) -> str:
    """A page whose line breaks are spaces, as a browser shows it: templates end lines anywhere.

    A line break before the end of a tag is nothing at all.
    """
    return re.sub(r"[ \t]*\n[ \t\n]*", " ", page).replace(" >", ">")

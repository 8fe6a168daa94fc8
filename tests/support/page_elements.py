"""Pages as text that a test can look into, or as the elements that they are made of."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

#: Elements without content, which nothing ends.
_EMPTY = {"br", "col", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
#: Text that a page must escape.
EVIL = "<img src=x onerror=\"alert('1')\">"


def spaced(page: str) -> str:
    """A page whose line breaks are spaces, as a browser shows it: templates end lines anywhere.

    A line break before the end of a tag is nothing at all.
    """
    return re.sub(r"[ \t]*\n[ \t\n]*", " ", page).replace(" >", ">")


class Element:
    """An element of a page, with what is in it."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.classes = attributes.get("class", "").split()
        self.content: list[Element | str] = []

    @property
    def text(self) -> str:
        """Return the element's text with single spaces."""
        return " ".join("".join(self._texts()).split())

    def all(self, tag: str = "", of_class: str = "", **attributes: str) -> Iterator["Element"]:
        """The elements in it, at any depth, that are such."""
        for each in self.content:
            if isinstance(each, Element):
                if (
                    tag in ("", each.tag)
                    and (not of_class or of_class in each.classes)
                    and attributes.items() <= each.attributes.items()
                ):
                    yield each
                yield from each.all(tag, of_class, **attributes)

    def one(self, tag: str = "", of_class: str = "", **attributes: str) -> "Element":
        """The only one of them."""
        [found] = self.all(tag, of_class, **attributes)
        return found

    def _texts(self) -> Iterator[str]:
        for each in self.content:
            if isinstance(each, str):
                yield each
            else:
                yield from each._texts()


def elements(page: str) -> Element:
    """A page as its elements."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return reader.open[0]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        #: The elements that have not ended, the whole page the first.
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attributes})
        self.open[-1].content.append(element)
        if tag not in _EMPTY:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in _EMPTY:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        places = [n for n, element in enumerate(self.open) if element.tag == tag]
        if places:
            del self.open[places[-1] :]

    def handle_data(self, text: str) -> None:
        self.open[-1].content.append(text)


def text_of(response) -> str:
    return spaced(response.content.decode())


def plain(response) -> str:
    """Return a page's text without tags, and with single spaces."""
    text = re.sub(r"<[^>]+>", " ", text_of(response)).replace("\xa0", " ")
    return re.sub(r"\s+", " ", text)

"""docs/asvs.md: each requirement of ASVS 5.0.0, level 2, once; what it names is there."""

import re
from collections import Counter

from tests.support.variables import ROOT

#: Section → how many requirements it has of levels 1 and 2; they are its first ones.
SECTIONS = {
    "1.1": 2, "1.2": 9, "1.3": 11, "1.4": 3, "1.5": 2, "2.1": 3, "2.2": 3, "2.3": 4, "2.4": 1,
    "3.2": 2, "3.3": 4, "3.4": 6, "3.5": 5, "3.7": 2, "4.1": 3, "4.2": 1, "4.3": 2, "4.4": 4,
    "5.1": 1, "5.2": 3, "5.3": 2, "5.4": 3, "6.1": 3, "6.2": 12, "6.3": 4, "6.4": 4, "6.5": 5,
    "6.6": 3, "6.8": 4, "7.1": 3, "7.2": 4, "7.3": 2, "7.4": 5, "7.5": 2, "7.6": 2, "8.1": 2,
    "8.2": 3, "8.3": 1, "8.4": 1, "9.1": 3, "9.2": 4, "10.1": 2, "10.2": 2, "10.3": 4, "10.4": 11,
    "10.5": 5, "10.6": 2, "10.7": 3, "11.1": 2, "11.2": 3, "11.3": 3, "11.4": 4, "11.5": 1,
    "11.6": 1, "12.1": 3, "12.2": 2, "12.3": 4, "13.1": 1, "13.2": 5, "13.3": 2, "13.4": 5,
    "14.1": 2, "14.2": 4, "14.3": 3, "15.1": 3, "15.2": 3, "15.3": 7, "16.1": 1, "16.2": 5,
    "16.3": 4, "16.4": 3, "16.5": 3, "17.1": 1, "17.2": 4, "17.3": 2,
}  # fmt: skip
PAGE = (ROOT / "docs" / "asvs.md").read_text()
_ROW = re.compile(r"^\| ([\d., –]+) \| (met|installation|n/a|open) \| (.*) \| ?(.*?) ?\|$", re.M)


def expanded(words: str) -> list[str]:
    """``1.2.6–8, 1.3.1`` → each of them."""
    found = []
    for word in words.split(", "):
        first, _, last = word.partition("–")
        section, _, number = first.rpartition(".")
        found += [f"{section}.{n}" for n in range(int(number), int(last or number) + 1)]
    return found


def test_every_requirement_has_one_verdict() -> None:
    told = Counter(one for words, *_ in _ROW.findall(PAGE) for one in expanded(words))
    wanted = {f"{section}.{n + 1}" for section, count in SECTIONS.items() for n in range(count)}
    assert len(wanted) == 253
    assert told == Counter(wanted)


def test_what_is_open_says_what_is_missing() -> None:
    listed = re.findall(r"^\| ([\d., –]+) \| [^|]+ \| [^|]+ \|$", PAGE, re.M)
    found = [words for words, verdict, *_ in _ROW.findall(PAGE) if verdict == "open"]
    assert sorted(one for words in listed for one in expanded(words)) == sorted(
        one for words in found for one in expanded(words)
    )


def test_what_is_met_names_a_test_that_is_there() -> None:
    for words, verdict, where, test in _ROW.findall(PAGE):
        path, _, name = test.partition("::")
        assert not path or (ROOT / path).exists(), words
        assert not name or f"def {name}(" in (ROOT / path).read_text(), words
        assert verdict != "met" or test or "](" in where or "mypy" in where or "none" in where, (
            words
        )

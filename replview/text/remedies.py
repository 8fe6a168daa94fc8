"""A remedy in three parts: words, what is to be run, words; so that the middle can be copied."""

import re
from dataclasses import dataclass

_RUNNABLE = re.compile(
    r"(?:^|(?<=: ))(?P<run>(?:ALTER|CREATE|DROP|GRANT|SELECT|VACUUM|COMMIT|ROLLBACK|replview)\s.+?)"
    r"(?= \(|, then |, or | and restart|$)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Remedy:
    """``before`` and ``after`` are sentences, ``run`` is SQL or a command; each may be empty."""

    before: str
    run: str
    after: str


def split_remedy(text: str) -> Remedy:
    """Take the first statement or command out of a remedy."""
    text = text.strip()
    found = _RUNNABLE.search(text)
    if found is None:
        return Remedy(text, "", "")
    before, after = text[: found.start()].strip(), text[found.end() :].strip(" ,;")
    run = found["run"].rstrip(" .")
    if not run.startswith("replview") and not run.endswith(";"):
        run += ";"
    return Remedy(before, run, after)

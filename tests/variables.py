"""Which REPLVIEW_* variables the code knows, found in its source."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from replview.runtime.environment import FROM_FILES

ROOT = Path(__file__).resolve().parents[1]
_VARIABLE = re.compile(r"REPLVIEW_[A-Z0-9_]+")


@cache
def variables_of_the_code() -> dict[str, set[str]]:
    """Each variable, and the files that name it in a string of its own."""
    found: dict[str, set[str]] = {
        f"{name}_FILE": {"replview/runtime/environment.py"} for name in FROM_FILES
    }
    for path in [ROOT / "manage.py", *(ROOT / "replview").rglob("*.py")]:
        if "REPLVIEW_" not in path.read_text():
            continue
        for text in _strings(path):
            if _VARIABLE.fullmatch(text):
                found.setdefault(text, set()).add(path.relative_to(ROOT).as_posix())
    return found


def _strings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def variables_in_tables(page: Path) -> set[str]:
    """What the first columns of a page's tables name, between backquotes."""
    rows = (line for line in page.read_text().splitlines() if line.startswith("|"))
    return {name for row in rows for name in _VARIABLE.findall(row.split("|")[1])}

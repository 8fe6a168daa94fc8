"""Finds the REPLVIEW_* variables that the code names."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from replview.runtime.environment import FROM_FILES

ROOT = Path(__file__).resolve().parents[2]
_VARIABLE = re.compile(r"REPLVIEW_[A-Z0-9_]+")
#: The table of all variables: that one stands in it does not show that anybody reads it.
_TABLE = ROOT / "replview" / "runtime" / "environment.py"


@cache
def variables_of_the_code() -> dict[str, set[str]]:
    """Each variable, and the files that name it in a string of its own."""
    found: dict[str, set[str]] = {f"{name}_FILE": {_TABLE.name} for name in FROM_FILES}
    for path in [ROOT / "manage.py", *(ROOT / "replview").rglob("*.py")]:
        if path == _TABLE or "REPLVIEW_" not in path.read_text():
            continue
        for text in _strings(path):
            if _VARIABLE.fullmatch(text):
                found.setdefault(text, set()).add(path.relative_to(ROOT).as_posix())
    return found


def _strings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value

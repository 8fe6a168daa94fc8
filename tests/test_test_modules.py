"""Test modules share helpers through ``tests.support``, or through a module of their folder."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def _imported(path: Path, package: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the line and the dotted name of everything that a file imports, late imports too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            module = [*above, *filter(None, [node.module])]
            for alias in node.names:
                yield node.lineno, ".".join([*module, alias.name])


def _violations(root: Path) -> list[str]:
    """Return where, below ``root/tests``, a test module or a foreign conftest is imported."""
    paths = sorted((root / "tests").rglob("*.py"))
    modules = {path.relative_to(root).with_suffix("").parts for path in paths}
    violations = []
    for path in paths:
        package = path.relative_to(root).parent.parts
        for line, name in _imported(path, list(package)):
            parts = tuple(name.split("."))
            # An imported name is a module, or stands in one.
            module = next((m for m in (parts, parts[:-1]) if m in modules), ("",))
            is_foreign = module[-1] == "conftest" and package[: len(module) - 1] != module[:-1]
            if module[-1].startswith("test_") or is_foreign:
                violations.append(f"{path.relative_to(root)}:{line}: {'.'.join(module)}")
    return violations


def test_no_test_module_and_no_other_folders_conftest_is_imported() -> None:
    violations = _violations(ROOT)

    assert not violations, "move what is imported into tests/support:\n" + "\n".join(violations)


@pytest.mark.parametrize(
    ("statement", "is_allowed"),
    [
        ("from tests.b.test_b import helper", False),
        ("from tests.b.test_b import *", False),
        ("from tests.b import test_b as b", False),
        ("import tests.b.test_b", False),
        ("def late():\n    from tests.b.test_b import helper", False),
        ("from . import test_c", False),
        ("from ..b.test_b import helper", False),
        ("from tests.b.conftest import helper", False),
        ("from tests.b import conftest", False),
        ("from tests.a.conftest import helper", True),
        ("from .conftest import helper", True),
        ("from tests.conftest import helper", True),
        ("from tests.b.helpers import helper", True),
        ("from tests.b.helpers import test_data", True),
    ],
)
def test_every_form_of_import_is_seen(tmp_path: Path, statement: str, is_allowed: bool) -> None:
    for name in ("conftest", "a/conftest", "a/test_c", "b/conftest", "b/test_b", "b/helpers"):
        path = tmp_path / "tests" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / "tests" / "a" / "test_a.py").write_text(statement)

    assert (_violations(tmp_path) == []) is is_allowed

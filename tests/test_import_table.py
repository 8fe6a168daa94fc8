"""The architecture's import table holds: who may import whom, and nothing else."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

#: Package → what of ours, and which of the large libraries, it may import.
ALLOWED = {
    "decoder": set(),
    "replview.store": {"decoder.scalars", "django", "psycopg"},
    "replview.catalog": {"decoder.scalars", "psycopg"},
    "replview.charts": {"decoder.scalars", "plotly"},
    "replview.receiver": {
        "decoder", "replview.store", "replview.catalog", "replview.live.events", "psycopg",
    },
    "replview.sampling": {"replview.catalog", "replview.store", "replview.live.events", "celery"},
    "replview.alerts": {"replview.catalog", "replview.store", "replview.live.events", "celery"},
    "replview.live.events": set(),
    "replview.live": {"replview.store", "replview.live", "channels", "asgiref", "django"},
    # Asking for exports, by page, program or command; the job itself is a process of its own.
    "replview.exports": {"replview.store", "replview.spark", "django", "psycopg", "pyarrow"},
    # What people do to sources and slots, by page, program or command.
    "replview.managing": {
        "decoder.scalars", "replview.store", "replview.catalog", "replview.receiver",
        "replview.sampling.publications", "replview.slot_making", "django", "psycopg",
    },
    "replview.web": {
        # Failed logins; single sign-on.
        "axes", "mozilla_django_oidc", "requests", "jwt",
        "replview.store", "replview.charts", "replview.catalog", "replview.live.events",
        "replview.spark", "replview.exports", "replview.managing", "django", "django_htmx",
        "asgiref",
        # What a rule is, and how it would have done: nothing that evaluates or delivers.
        "replview.alerts.kinds", "replview.alerts.amounts", "replview.alerts.trying",
        "replview.alerts.sight",
        "replview.alerts.built_in", "replview.alerts.webhooks", "replview.alerts.outbox",
    },
    "replview.api": {
        "replview.store", "replview.charts", "replview.catalog", "replview.spark",
        "replview.exports", "replview.managing", "django",
        "ninja", "asgiref", "prometheus_client", "psycopg", "redis",
    },
    # For applications that name their actor: nothing of ours, whatever they are made with.
    "replview.actors": {"django", "asgiref", "sqlalchemy"},
    "replview.spark": {"decoder", "pyspark", "pyarrow", "psycopg"},
}  # fmt: skip
#: Small libraries that stand for no arrow of the architecture.
ANYWHERE = {"orjson", "xxhash", "cryptography"}
#: These join the parts: commands, tasks, settings, and the demo that starts everything.
JOINTS = {"replview.demo", "replview.fleet", "replview.management"}


def _modules() -> list[tuple[str, Path]]:
    found = []
    for package in ("decoder", "replview"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found.append((".".join(parts).removesuffix(".__init__"), path))
    return found


def _home(module: str) -> str | None:
    """The table's entry a module belongs to; None for the joints."""
    entries = [e for e in ALLOWED if module == e or module.startswith(f"{e}.")]
    return max(entries, key=len, default=None)


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: relative import"
            found.add(node.module or "")
    return found


def test_every_package_is_in_the_table() -> None:
    for module, path in _modules():
        inside = module.count(".") > 1 or path.name == "__init__.py"
        joint = any(module == j or module.startswith(f"{j}.") for j in JOINTS)
        if inside and module != "replview" and not joint:
            assert _home(module), f"{module} belongs to no entry of the import table"


@pytest.mark.parametrize(("module", "path"), _modules(), ids=lambda value: str(value)[-60:])
def test_imports_follow_the_table(module: str, path: Path) -> None:
    home = _home(module)
    if home is None:
        return
    allowed = ALLOWED[home] | ANYWHERE | {home}
    for name in _imports(path):
        standard = name.split(".")[0] in sys.stdlib_module_names
        permitted = any(name == entry or name.startswith(f"{entry}.") for entry in allowed)
        assert standard or permitted, f"{module} must not import {name}"

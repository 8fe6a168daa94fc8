"""The house: who may import whom, and that nothing goes in a circle."""

import ast
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent

#: Package → which packages of ours it may import. Features may import every library, and never
#: each other; what stands at the root, ``management`` and ``demo`` may import everything.
LIBRARIES: dict[str, set[str]] = {
    "decoder": set(),
    # For applications that name their actor: nothing of ours, whatever they are made with.
    "replview.actors": set(),
    # The one form of an error: every library may raise it.
    "replview.text.problem": set(),
    # The one reading of numbers and texts that somebody sent: everything may use it.
    "replview.text.parsing": set(),
    "replview.text": {"decoder.scalars", "replview.text.problem", "replview.text.parsing"},
    "replview.catalog": {
        "decoder.scalars", "replview.text.problem", "replview.text.parsing",
        "replview.text.formats", "replview.text.sizes",
    },
    # Files alone: the store, the receiver, exports and Spark's executors are to use it.
    "replview.segments": set(),
    # Free of Django.
    "replview.store.read": {
        "decoder.scalars", "replview.text.problem", "replview.text.parsing",
        "replview.text.formats",
    },
    "replview.store": {
        "decoder.scalars", "replview.store.read", "replview.text.problem", "replview.text.parsing",
    },
    # A migration stays as it is: it copies what it needs of today's code.
    "replview.store.migrations": {"replview.store.fields"},
    "replview.live.events": set(),
    # Tests stop a process here: no imports of ours, so that processes of Spark have it, too.
    "replview.runtime.failpoints": set(),
    "replview.receiver": {
        "decoder", "replview.store", "replview.catalog", "replview.live.events",
        "replview.runtime.failpoints", "replview.text.problem",
    },
    "replview.parquet": {
        "decoder.scalars", "replview.store.read", "replview.runtime.failpoints",
        "replview.text.problem", "replview.text.parsing", "replview.text.formats",
    },
    "replview.spark": {
        "decoder.scalars", "replview.store.read", "replview.parquet",
        "replview.text.problem", "replview.text.parsing",
    },
    "replview.jobs": {
        "decoder.scalars", "replview.store", "replview.catalog",
        "replview.runtime.failpoints", "replview.text.problem",
    },
    "replview.access": {"replview.store", "replview.catalog", "replview.text"},
    # Shows what an archive holds, as several features do: with the pages' own components.
    "replview.targets": {
        "decoder.scalars", "replview.store", "replview.access", "replview.parquet",
        "replview.spark", "replview.ui", "replview.text",
    },
    # Sends rows as the pages draw them.
    "replview.live": {
        "replview.live.events", "replview.store", "replview.catalog", "replview.access",
        "replview.jobs", "replview.text", "replview.ui",
    },
    "replview.health": {"decoder.scalars", "replview.store", "replview.catalog", "replview.text"},
    "replview.acts": {
        "decoder.scalars", "replview.store", "replview.catalog", "replview.access",
        "replview.receiver", "replview.jobs", "replview.health", "replview.text",
    },
    "replview.ui": {
        "decoder.scalars", "replview.store", "replview.catalog", "replview.access",
        "replview.health", "replview.acts", "replview.text",
    },
    "replview.runtime": {"replview.store", "replview.text.problem", "replview.text.formats"},
}  # fmt: skip
#: Package → the libraries of others that it must not load: what it is free of.
FREE_OF = {
    "decoder": {"django", "psycopg", "orjson", "xxhash"},
    "replview.catalog": {"django"},
    "replview.segments": {"django", "celery", "channels", "psycopg"},
    "replview.store.read": {"django", "celery", "channels"},
    "replview.parquet": {"django", "celery", "channels"},
    "replview.spark": {"django", "celery", "channels"},
}
AT_THE_ROOT = {"__init__", "settings", "urls", "asgi", "celery", "cli"}
MOUNTS = ("replview.management", "replview.demo")


@dataclass(frozen=True)
class _Module:
    """A module's imports and long functions, found in one reading of it."""

    #: All that it imports, late and under ``TYPE_CHECKING`` too. The name of a relative import
    #: begins with its dots.
    imports: frozenset[str]
    #: Its functions of more than 40 lines, each with its length.
    long_functions: tuple[str, ...]


@cache
def _modules() -> dict[str, Path]:
    found = {}
    for package in ("decoder", "replview"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


@cache
def _read(module: str) -> _Module:
    """Parse a module. Each is parsed once: there are hundreds."""
    imports: set[str] = set()
    long: list[str] = []
    for node in ast.walk(ast.parse(_modules()[module].read_text())):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imports |= _imported_from(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > 40:
                long.append(f"{module}.{node.name}: {lines} lines")
    return _Module(frozenset(imports - {module}), tuple(long))


def _imported_from(node: ast.ImportFrom) -> set[str]:
    if node.level or not node.module:
        return {"." * node.level + (node.module or "")}
    names = {f"{node.module}.{alias.name}" for alias in node.names}
    found = (names & _modules().keys()) or {node.module}
    return found if names <= _modules().keys() else found | {node.module}


def _within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _home(module: str) -> str | None:
    """The room a module stands in; None for what mounts the rest."""
    if module.startswith("replview.features."):
        return ".".join(module.split(".")[:3])
    entries = [entry for entry in LIBRARIES if _within(module, entry)]
    return max(entries, key=len, default=None)


def _is_mount(module: str) -> bool:
    at_root = module.count(".") < 2 and module.rpartition(".")[2] in AT_THE_ROOT | {"replview"}
    return at_root or any(_within(module, mount) for mount in MOUNTS)


def test_every_module_has_its_place() -> None:
    homeless = [
        module
        for module in _modules()
        if module != "replview.features" and not _home(module) and not _is_mount(module)
    ]
    assert not homeless, f"in no room of the table: {', '.join(homeless)}"


def test_imports_follow_the_table() -> None:
    forbidden = [
        f"{module} must not import {name}"
        for module in _modules()
        for name in sorted(_read(module).imports)
        if not _is_permitted(module, name)
    ]
    assert not forbidden, "\n".join(forbidden)


def _is_permitted(module: str, name: str) -> bool:
    home = _home(module)
    if name.startswith("."):
        return False
    if home is None:
        return True
    if name == "replview" or not (_within(name, "replview") or _within(name, "decoder")):
        free = max((e for e in FREE_OF if _within(module, e)), key=len, default="")
        top = name.split(".")[0]
        known = not module.startswith("decoder") or top in sys.stdlib_module_names
        return known and top not in FREE_OF.get(free, ())
    allowed = LIBRARIES.keys() if home.startswith("replview.features") else LIBRARIES[home]
    return _home(name) == home or any(_within(name, entry) for entry in allowed)


def test_no_function_is_longer_than_forty_lines() -> None:
    long = [function for module in _modules() for function in _read(module).long_functions]
    assert long == []


def test_nothing_else_stands_at_the_root() -> None:
    assert {path.stem for path in (ROOT / "replview").glob("*.py")} == AT_THE_ROOT


def test_no_imports_go_in_a_circle() -> None:
    graph = {m: {i for i in _read(m).imports if i in _modules()} for m in _modules()}
    assert [circle for circle in _circles(graph) if len(circle) > 1] == []


def _circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected parts of a graph, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]

    sys.setrecursionlimit(5_000)
    for node in graph:
        if node not in index:
            visit(node)
    return found

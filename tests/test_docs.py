"""Links and names in documentation and code lead somewhere, and nothing is left aside."""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from django.core.management import get_commands, load_command_class

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, *sorted(DOCS.rglob("*.md"))]
LONGEST_README_WORDS = 1000
#: A section as docstrings name it, *Some heading* and its page.
_SECTION = re.compile(r"\*([A-Z][^*]+)\*\s+in\s+(docs/[\w-]+\.md)")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_FILE = re.compile(r"(?<![\w/.])((?:decoder|replview|tests|templates|static)/[\w./-]*\w/?)")
_MODULE = re.compile(r"(?<![\w/.])((?:decoder|replview)(?:\.[a-z_]\w*)+)")
#: A picture that is larger makes the page slow, and the repository with every new one.
LARGEST_PICTURE_BYTES = 150_000
#: Dotted names that are no modules: a host, a unit, files.
NO_MODULES = {"replview.example", "replview.target", "replview.token", "replview.env"}


def links(page: Path) -> list[str]:
    """The page's links to other files, pictures among them, and to its own sections."""
    found = _LINK.findall(_CODE.sub("", page.read_text()))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """Return the anchors of the page's headings."""
    headings = re.findall(r"^#+ (.+)$", _CODE.sub("", page.read_text()), re.MULTILINE)
    # Git's web pages make them like this: lower case, no punctuation, a hyphen for each space.
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if anchor and target.suffix == ".md" and target.exists():
        return anchor in anchors(target)
    return target.exists()


def test_every_link_leads_somewhere() -> None:
    broken = [
        f"{page.name}: {link}"
        for page in [*PAGES, ROOT / "CHANGELOG.md"]
        for link in links(page)
        if not leads_somewhere(page, link)
    ]
    assert not broken, "\n".join(broken)


def test_sections_that_the_code_names_are_there() -> None:
    named = {
        (page, " ".join(section.split()))
        for path in [*ROOT.glob("replview/**/*.py"), *ROOT.glob("decoder/**/*.py")]
        for section, page in _SECTION.findall(path.read_text())
    }
    assert named
    headings = {
        (f"docs/{page.name}", heading)
        for page in DOCS.glob("*.md")
        for heading in re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    }
    assert named - headings == set()


def test_every_page_can_be_reached_from_the_first() -> None:
    reached, waiting = set(), [README]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md":
            reached.add(page)
            waiting += [(page.parent / link.partition("#")[0]).resolve() for link in links(page)]
    assert set(PAGES) - reached == set()


def test_every_picture_is_small_and_shown_somewhere() -> None:
    shown = {(page.parent / link).resolve() for page in PAGES for link in links(page)}
    pictures = set((DOCS / "images").glob("*.png"))
    assert pictures - shown == set()
    assert {p.name for p in pictures if p.stat().st_size > LARGEST_PICTURE_BYTES} == set()


def test_the_readme_is_read_in_five_minutes() -> None:
    assert len(README.read_text().split()) <= LONGEST_README_WORDS


def test_every_figure_of_the_readme_is_one_that_was_measured() -> None:
    section = README.read_text().split("## Measured")[1]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| ")][1:]
    measured = re.findall(r"\d[\d.,]*", (DOCS / "measured.md").read_text())
    figures = {figure for row in rows for figure in re.findall(r"\d[\d.,]*", row[2])}
    assert len(rows) == 8
    assert {figure.strip(",.") for figure in figures} - {
        figure.strip(",.") for figure in measured
    } == set()


def paths(page: Path) -> set[str]:
    """The files, folders and modules of ours that a page names."""
    text = page.read_text()
    modules = {name for name in _MODULE.findall(text) if not name.endswith(".py")}
    return {*_FILE.findall(text), *(modules - NO_MODULES)}


def exists(name: str) -> bool:
    """A file or folder; of a dotted name its module, or what the module before it defines."""
    if "/" in name:
        return (ROOT / name).exists()
    where = ROOT / name.replace(".", "/")
    if where.is_dir() or where.with_suffix(".py").exists():
        return True
    module, attribute = where.parent.with_suffix(".py"), where.name
    return module.exists() and re.search(rf"\b{attribute}\b", module.read_text()) is not None


def test_every_module_a_page_names_is_there() -> None:
    missing = [
        f"{page.name}: {name}" for page in PAGES for name in sorted(paths(page)) if not exists(name)
    ]
    assert not missing, "\n".join(missing)


def test_every_file_that_the_code_names_is_there() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for folder in ("decoder", "replview", "static", "templates")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".css", ".js", ".html")
        for name in _FILE.findall(path.read_text())
        if not exists(name)
    ]
    assert not missing, "\n".join(missing)


def test_the_tree_of_the_house_names_every_room_and_feature() -> None:
    tree = (DOCS / "architecture.md").read_text().split("## The folders")[1].split("\n## ")[0]
    named = set(re.findall(r"\w+", tree))
    for folder in (ROOT / "replview", ROOT / "replview" / "features"):
        rooms = {path.parent.name for path in folder.glob("*/__init__.py")}
        assert rooms - named == set()


def test_every_step_of_a_walk_names_a_module() -> None:
    text = (DOCS / "architecture.md").read_text().split("## Four walks")[1].split("\n## ")[0]
    walks = text.split("\n### ")[1:]
    assert len(walks) == 4
    for walk in walks:
        steps = re.split(r"\n\d+\. ", walk)[1:]
        assert [step for step in steps if not _FILE.search(step)] == []


def commands(page: Path) -> Iterator[list[str]]:
    """The words of every ``replview …`` in its blocks of commands."""
    for block in re.findall(r"```(?:sh|bash|console)\n(.*?)```", page.read_text(), re.DOTALL):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            found = re.search(r"(?:^|[\s(])replview (\S.*)", line)
            # Within quotation marks it is a word of another program's.
            if found and line[: found.start()].count("'") % 2 == 0:
                yield shlex.split(found[1], comments=True)


def fault(words: list[str]) -> str:
    """Return what is wrong with a command line, nothing where it can be parsed."""
    name, *rest = words
    if name not in get_commands():
        return "no such command"
    ends = [n for n, word in enumerate(rest) if word in ("|", "&&", "||", ">", "<", "&")]
    parser = load_command_class(get_commands()[name], name).create_parser("replview", name)
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            parser.parse_args(rest[: min(ends, default=len(rest))])
        except Exception as problem:
            return str(problem)
        except SystemExit as end:
            return said.getvalue()[-200:] if end.code else ""
    return ""


def test_every_command_is_one_that_there_is() -> None:
    wrong = [
        f"{page.name}: {' '.join(words)}: {fault(words)}"
        for page in PAGES
        for words in commands(page)
        if fault(words)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_form_of_a_value_in_json_is_documented() -> None:
    from replview.store.read.changes.values import MARKS

    page = (DOCS / "watch-and-audit.md").read_text()
    missing = [mark for mark in (*MARKS, "$erased") if f'`{{"{mark}": ' not in page]
    assert not missing, missing

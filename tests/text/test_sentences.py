"""Code reads codes and details, not sentences, so that another wording breaks nothing."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Attributes that hold a sentence.
SENTENCES = {"message", "cause", "remedy", "problem", "problem_cause", "problem_remedy"}
#: Functions that look into a text.
READERS = {
    "startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition", "split",
    "find", "index", "match", "fullmatch", "search", "findall", "finditer", "sub",
}  # fmt: skip
#: Lookups that say nothing about the words.
LOOKUPS = {"exact", "in", "isnull"}
#: Modules that take a sentence apart only to show it.
SHOWN_IN_PARTS = {
    # Without the alternative, one constant, that does not exist for a watched source.
    "replview/features/onboarding/checking.py",
    # The statements of a remedy in a line each.
    "replview/management/commands/doctor.py",
    # An LSN that the sentence has is not repeated.
    "replview/management/slot_log.py",
}


def is_sentence(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in SENTENCES


def parsed(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that look into a sentence."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            if is_sentence(node.comparators[0]):
                yield node
        elif isinstance(node, ast.Call):
            function = node.func
            texts = [*node.args, getattr(function, "value", function)]
            if getattr(function, "attr", "") in READERS and any(map(is_sentence, texts)):
                yield node
            for keyword in node.keywords:
                field, _, lookup = (keyword.arg or "").rpartition("__")
                if field.rpartition("__")[2] in SENTENCES and lookup not in LOOKUPS:
                    yield node


def test_no_code_takes_a_fact_out_of_a_sentence() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): ast.unparse(node)
        for path in (ROOT / "replview").rglob("*.py")
        if "migrations" not in path.parts
        for node in parsed(ast.parse(path.read_text()))
    }
    assert found.keys() - SHOWN_IN_PARTS == set(), found
    assert SHOWN_IN_PARTS - found.keys() == set()


def test_such_code_would_be_found() -> None:
    code = """
        'gone' in slot.message
        row.message.startswith('The')
        _PATTERN.match(finding.cause)
        Q(message__startswith='The source')
        rows.filter(slot__problem_cause__icontains='full')
        rows.filter(message='')
        slot.message
    """
    lines = [line.strip() for line in code.splitlines() if line.strip()]
    assert [bool([*parsed(ast.parse(line))]) for line in lines] == [True] * 5 + [False] * 2

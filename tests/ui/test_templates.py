"""Rules that all templates follow."""

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from django.conf import settings
from django.template import Context, Engine, TemplateSyntaxError
from django.template.loader import get_template

import replview

TEMPLATES = Path(settings.TEMPLATES[0]["DIRS"][0])
STATIC = Path(settings.STATICFILES_DIRS[0])
LONGEST_LINE = 120


def test_no_line_of_a_template_is_longer_than_a_review_can_show() -> None:
    long = [
        f"{path.relative_to(TEMPLATES)}:{number}: {len(line)} characters"
        for path in sorted(TEMPLATES.rglob("*.*"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > LONGEST_LINE
    ]

    assert long == []


def test_every_template_can_be_read() -> None:
    for path in sorted(TEMPLATES.rglob("*.*")):
        get_template(str(path.relative_to(TEMPLATES)))


def test_folders_are_called_as_what_they_belong_to() -> None:
    packages = Path(replview.__file__).parent
    known = {path.name for path in (*packages.iterdir(), *(packages / "features").iterdir())}
    # Django looks for the page of sign-in there.
    known.add("registration")

    for root in (TEMPLATES, STATIC / "js", STATIC / "css"):
        paths = (path.relative_to(root) for path in root.rglob("*.*"))
        assert {path.parts[0] for path in paths if len(path.parts) > 1} <= known, root


def test_no_script_imports_itself_by_way_of_others() -> None:
    imported = re.compile(r"""^import [^;]*?["'](\.[^"']+)["'];""", re.M)
    imports = {
        script: {(script.parent / path).resolve() for path in imported.findall(script.read_text())}
        for script in (STATIC / "js").rglob("*.js")
    }

    assert {path for paths in imports.values() for path in paths} <= set(imports)
    TopologicalSorter(imports).prepare()


def rendered(body: str, **context: object) -> str:
    engine = Engine(
        libraries={"replview": "replview.ui.templatetags.replview"},
        loaders=[
            (
                "django.template.loaders.locmem.Loader",
                {"greeting": "{{ greeting }}, {{ name }}{{ outer }}!"},
            )
        ],
    )
    return engine.from_string("{% load replview %}" + body).render(Context(context))


def test_arguments_of_an_include_may_stand_on_several_lines() -> None:
    body = '{% include_with "greeting" %}\n  greeting="Good\n    evening"\n  name=who|upper\n'

    written = rendered(body + "{% end_include_with %}", who="<ada>", outer="?")

    assert written == "Good evening, &lt;ADA&gt;?!"


def test_only_keeps_the_rest_of_the_context_out() -> None:
    body = '{% include_with "greeting" only %} greeting="Hello" name=who {% end_include_with %}'

    assert rendered(body, who="Ada", outer="?") == "Hello, Ada!"


@pytest.mark.parametrize(
    "body",
    [
        '{% include_with "greeting" %} greeting="Hello" Ada {% end_include_with %}',
        '{% include_with "greeting" %} greeting={{ who }} {% end_include_with %}',
        '{% include_with "greeting" alone %} greeting="Hello" {% end_include_with %}',
    ],
)
def test_what_is_no_argument_is_refused(body: str) -> None:
    with pytest.raises(TemplateSyntaxError):
        rendered(body)

"""What all templates keep to."""

from pathlib import Path

import pytest
from django.conf import settings
from django.template import Context, Engine, TemplateSyntaxError
from django.template.loader import get_template

TEMPLATES = Path(settings.TEMPLATES[0]["DIRS"][0])
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

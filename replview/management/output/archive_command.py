"""``replview store archive URL|now|off|status``: where history goes, and how far it is there."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError

from replview.store.retention import archive, archived
from replview.store.retention.archive_choices import (
    MOST,
    ask_now,
    choose_number,
    choose_target,
    switch_off,
)
from replview.ui.archive_text import archive_view

_BY = "the command line"


def archive_command(options: Mapping[str, Any]) -> list[str]:
    """Change what was given; what there is to say. Raises ``CommandError``."""
    words = list(options["archive"])
    if words and words[0] != "archive":
        raise CommandError(
            f"there is no 'replview store {words[0]}': write archive URL|now|off|status"
        )
    if len(words) > 2:
        raise CommandError("one target: replview store archive URL")
    for name in MOST:
        if options[name] is not None:
            try:
                choose_number(name, options[name], _BY)
            except ValueError as error:
                raise CommandError(f"--{name.replace('_', '-')}: {error}") from None
    wanted = words[1] if len(words) == 2 else "status"
    if wanted == "off":
        switch_off(_BY)
        return ["no archive: retention deletes days without waiting for one"]
    if wanted == "now":
        ask_now(_BY)
    elif wanted != "status":
        choose_target(_target(wanted), _BY)
    return _lines()


def _target(text: str) -> str:
    """The absolute folder or URL, once it was written to. Raises ``CommandError``."""
    from replview.parquet.writing.problems import TargetProblem
    from replview.parquet.writing.targets import Target, test_write

    try:
        target = Target.of(text)
        test_write(target)
    except TargetProblem as problem:
        raise CommandError(f"{problem.problem}: {problem.remedy}") from None
    return target.url


def _lines() -> list[str]:
    choice = archive.chosen()
    if choice.target is None:
        return ["no archive: set one with 'replview store archive URL' (a folder, s3://…)"]
    view = archive_view(choice, archived.standings())
    found = [f"archive: {choice.target}", view.rhythm]
    for line in view.lines:
        found.append(f"  {line.name}: {line.state}")
        if line.problem:
            found.append(f"    {line.problem}")
    return found

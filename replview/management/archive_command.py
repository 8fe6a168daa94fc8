"""``replview store archive URL|off|status``: where history goes, and how far it is there."""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError

from replview.store import archive, archived, instance_settings
from replview.store.access_record import Action, note
from replview.web.archive_words import archive_view

_BY = "the command line"
_BOUNDS = {"after_hours": 24 * 366, "every_seconds": 86_400}


def archive_command(options: Mapping[str, Any]) -> list[str]:
    """Change what was given; what there is to say. Raises ``CommandError``."""
    words = list(options["archive"])
    if words and words[0] != "archive":
        raise CommandError(f"there is no 'replview store {words[0]}': write archive URL|off|status")
    if len(words) > 2:
        raise CommandError("one target: replview store archive URL")
    for name, most in _BOUNDS.items():
        given = options[name]
        if given is not None:
            if not 0 <= given <= most:
                raise CommandError(f"--{name.replace('_', '-')}: between 0 and {most}")
            instance_settings.write(f"archive.{name}", given, _BY)
            note(Action.CHANGED_SETTINGS, subject=f"the archive: {name} {given}")
    wanted = words[1] if len(words) == 2 else "status"
    if wanted == "off":
        instance_settings.write("archive.target", None, _BY)
        note(Action.CHANGED_SETTINGS, subject="the archive: off")
        return ["no archive: retention deletes days without waiting for one"]
    if wanted != "status":
        instance_settings.write("archive.target", _target(wanted), _BY)
        note(Action.CHANGED_SETTINGS, subject="the archive: another target")
    return _lines()


def _target(text: str) -> str:
    """The absolute folder or URL, once it was written to. Raises ``CommandError``."""
    from replview.spark.writing.problems import TargetProblem
    from replview.spark.writing.targets import Target, test_write

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

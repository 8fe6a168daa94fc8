"""``replview store``: show the store's size, and set its budget and its archive."""

import threading
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError

from replview.management.instance import BY, InstanceCommand
from replview.store import instance_settings
from replview.store.models import Slot
from replview.store.retention import archive, archived
from replview.store.retention.archive import MOST
from replview.store.retention.archived import ask_now, choose_number, choose_target, switch_off
from replview.store.retention.forecast import forecast
from replview.store.retention.size import StoreSize, chosen, measure, order_of_sacrifice
from replview.store.write.access_record import Action, note
from replview.text.formats import bytes_words
from replview.text.sizes import parse_limit
from replview.ui.archive_text import archive_view
from replview.ui.retention_text import full_sentence, rate_of


def archive_command(options: Mapping[str, Any]) -> list[str]:
    """Change the archive's settings and return the lines to print. Raises ``CommandError``."""
    words = list(options["archive"])
    if words and words[0] != "archive":
        raise CommandError(
            f"there is no 'replview store {words[0]}': write archive URL|now|compact|off|status"
        )
    if len(words) > 2:
        raise CommandError("give one target: replview store archive URL")
    for name in MOST:
        if options[name] is not None:
            try:
                choose_number(name, options[name], BY)
            except ValueError as error:
                raise CommandError(f"--{name.replace('_', '-')}: {error}") from None
    action = words[1] if len(words) == 2 else "status"
    if action == "off":
        switch_off(BY)
        return ["archiving is off: retention deletes days that are not archived"]
    if action == "compact":
        return [_compact()]
    if action == "now":
        ask_now(BY)
    elif action != "status":
        from replview.parquet.writing.targets import Target, test_write

        target = Target.of(action)
        test_write(target)
        choose_target(target.url, BY)
    return _archive_lines()


def _compact() -> str:
    """Compact the archive's files and return the result. Raises ``CommandError``."""
    from replview.features.archive.job import compact

    with archive.alone() as acquired:
        if not acquired:
            raise CommandError("a worker is archiving or erasing: try again when it has ended")
        (files_before, files_after), problem = compact(threading.Event(), all_of_it=True)
    if problem:
        raise CommandError(f"{problem}: nothing that is in the archive was lost. See its log")
    return (
        f"{files_before} files became {files_after}"
        if files_before
        else "there is nothing to compact"
    )


def _archive_lines() -> list[str]:
    choice = archive.chosen()
    if choice.target is None:
        return ["no archive: set one with 'replview store archive URL' (a folder, s3://…)"]
    view = archive_view(choice, archived.standings())
    lines = [f"archive: {choice.target}", view.rhythm]
    for line in view.lines:
        lines += [f"  {line.name}: {line.state}", *[f"    {line.problem}"] * bool(line.problem)]
    return lines


class Command(InstanceCommand):
    """The command that shows and changes the store's budget and archive."""

    help = "Show the store's size, and set its budget and its archive."
    examples = (
        "replview store",
        "replview store --budget 50GB --protect record",
        "replview store archive s3://bucket/archive",
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the options of budget and archive."""
        parser.add_argument("--budget", metavar="SIZE", help="maximum size of the store: 50GB, "
                            "or none")  # fmt: skip
        parser.add_argument("--protect", choices=Slot.Protect.values, help="at the budget: "
                            "delete the oldest days and keep receiving (database), or delete "
                            "nothing and stop receiving (record)")  # fmt: skip
        parser.add_argument("archive", nargs="*", metavar="archive [URL|now|compact|off|status]",
                            help="URL: archive history there as Parquet before retention deletes "
                            "it; now: archive everything at once; compact: merge small files; "
                            "off: stop archiving; status (default): show its state")  # fmt: skip
        parser.add_argument("--after-hours", type=float, metavar="HOURS", help="archive history "
                            "that is older than this (default: 24)")  # fmt: skip
        parser.add_argument("--every-seconds", type=float, metavar="SECONDS", help="time between "
                            "two writes of a day that is not over (default: 21600)")  # fmt: skip
        self.add_data(parser)

    def handle(self, **options: Any) -> None:
        """Change the given settings, then print the store's size or the archive's state."""
        numbers = (options["after_hours"], options["every_seconds"])
        if options["archive"] or numbers != (None, None):
            self.say(*archive_command(options))
            return
        if options["budget"] is not None:
            instance_settings.write("store.budget_bytes", _budget(options["budget"]), BY)
        if options["protect"]:
            instance_settings.write("store.protect", options["protect"], BY)
        if options["budget"] is not None or options["protect"]:
            budget, protect = chosen()
            note(Action.CHANGED_SETTINGS, subject=f"the store's budget: {budget}, {protect}")
        self.say(*_lines(measure()))


def _budget(text: str) -> int | None:
    try:
        return parse_limit(text)
    except ValueError as error:
        raise CommandError(f"--budget: {error}") from None


def _lines(store: StoreSize) -> list[str]:
    share = "" if store.share is None else f", {100 * store.share:.0f} % of its budget"
    lines = [f"the store occupies {bytes_words(store.size_bytes)}{share}"]
    lines += [f"  {bytes_words(size)}  {name}" for name, size in store.tables[:6]]
    if store.growth_bytes_per_day is None:
        lines.append("growth: unknown until a whole day is recorded")
    else:
        lines.append(f"growth: {bytes_words(store.growth_bytes_per_day)} of changes a day")
    full_forecast = forecast()
    lines.append(full_sentence(full_forecast))
    lines += [
        f"  {rate_of(rate)}"
        for rate in dict.fromkeys((full_forecast.week, full_forecast.day))
        if rate
    ]
    if store.stuck:
        lines.append(f"no room can be made: {store.stuck}")
    lines.append("when the store is full:")
    steps = order_of_sacrifice(store.budget_bytes, store.protect)
    return lines + [f"  {number}. {step}" for number, step in enumerate(steps, 1)]

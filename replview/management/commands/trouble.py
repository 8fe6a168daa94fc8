"""``replview trouble start|end|list``: do from the command line what the demo's page does."""

import time
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from replview.management.instance import BY, Actions, InstanceCommand
from replview.store import demo_troubles as troubles
from replview.store.demo_troubles import Reported, TroubleState
from replview.store.write.access_record import Action, note

#: Seconds that the command waits for a trouble to start or end.
_WAIT_SECONDS = 120.0


class Command(Actions, InstanceCommand):
    """The command that starts and ends troubles in the demo."""

    help = "Cause a problem in a running demo, to see what replview shows."
    examples = ("replview trouble list", "replview trouble start flood")

    def add_actions(self, actions: Any) -> None:
        """Add the parsers of ``start``, ``end`` and ``list``."""
        start = actions.add_parser("start", help="start a trouble, and wait until it shows")
        end = actions.add_parser("end", help="end a trouble, and wait until it is over")
        for action in (start, end):
            action.add_argument("name", metavar="NAME", choices=troubles.NAMES,
                                help=", ".join(troubles.NAMES))  # fmt: skip
            action.add_argument("--no-wait", action="store_true", help="do not wait")
        listing = actions.add_parser("list", help="list all troubles and their state")
        listing.add_argument("--format", choices=["text", "json"], default="text")

    def handle(self, **options: Any) -> None:
        """Run the action; refuse it outside the demo."""
        if not settings.DEMO:
            raise CommandError("this instance is no demo: start one with 'replview demo'")
        super().handle(**options)

    def _start(self, options: dict[str, Any]) -> None:
        self._request(options["name"], True, wait=not options["no_wait"])

    def _end(self, options: dict[str, Any]) -> None:
        self._request(options["name"], False, wait=not options["no_wait"])

    def _request(self, name: str, wanted: bool, *, wait: bool) -> None:
        if not troubles.maker_is_alive():
            raise CommandError("the demo's process for trouble does not answer; see its log")
        troubles.request(name, wanted, BY)
        act = "start" if wanted else "end"
        note(Action.CHANGED_SETTINGS, subject=f"trouble {name}: {act}")
        if not wait:
            self.say(f"{name}: asked to {'begin' if wanted else 'end'}")
            return
        deadline = time.monotonic() + _WAIT_SECONDS
        while (
            trouble := next(reported for reported in troubles.read() if reported.name == name)
        ).state != (TroubleState.ON if wanted else TroubleState.OFF):
            # The demo withdraws a request that failed; until then, OFF is the old state.
            if wanted and not trouble.wanted:
                raise CommandError(f"{name} did not come. {trouble.note}".strip())
            if time.monotonic() > deadline:
                raise CommandError(f"{name} is still {trouble.state}; 'replview trouble list'")
            time.sleep(0.1)
        self.say(f"{name}: {trouble.state}")

    def _list(self, options: dict[str, Any]) -> None:
        self.say_facts(
            [_facts(reported) for reported in troubles.read()], options["format"], "no troubles"
        )


def _facts(trouble: Reported) -> dict[str, str | None]:
    is_on = trouble.state != TroubleState.OFF
    return {
        "name": trouble.name,
        "state": str(trouble.state),
        "since": trouble.since.isoformat(timespec="seconds") if trouble.since and is_on else None,
        "ends_by_itself": trouble.ends_at.isoformat(timespec="seconds")
        if trouble.ends_at
        else None,
        "note": trouble.note,
    }

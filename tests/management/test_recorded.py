"""Commands in the access record: what changes something, or takes rows out, and who did it."""

import getpass
from argparse import _SubParsersAction
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import load_command_class

from replview.management import commands
from replview.store import demo_troubles as troubles
from replview.store import instance_settings
from replview.store.models import (
    AccessRecord,
    Baseline,
    Export,
    Lake,
    Quarantine,
    Slot,
    Webhook,
)
from replview.store.retention.tidy import make_partitions
from tests.support.history_rows import History, insert
from tests.support.people import make_user

#: Command lines, and what each is in the record as.
RECORDED: dict[str, tuple[str, str]] = {
    "account add bob --role viewer --no-password": ("changed_settings", "account bob"),
    "account unlock alice": ("changed_settings", "account alice"),
    "baseline shop/replview --cancel": ("changed_slot", "shop/replview: a baseline, cancelled"),
    "changes --slot shop/replview --where status=new": ("downloaded", "changes of shop/replview"),
    "createsuperuser --noinput --email a@b.example": ("changed_settings", "account root"),
    "export --forbid": ("changed_settings", "exports: off"),
    "export --root /tmp": ("changed_settings", "exports: root /tmp"),
    "export --cancel {export}": ("exported", "export {export}"),
    "lake add new --slot shop/replview --root /tmp --format delta --table public.orders": (
        "exported",
        "lake new",
    ),
    "lake remove known --yes": ("exported", "lake known"),
    "lake schedule known 15": ("exported", "lake known"),
    "slot interface shop replview sql": ("changed_slot", "shop/replview"),
    "slot quarantine shop replview --retry": ("changed_slot", "quarantine of shop/replview: retry"),
    "slot set shop replview --wal-budget 2GB": ("changed_slot", "shop/replview: WAL budget"),
    "source rename shop store --yes": ("changed_source", "store"),
    "token create export --user alice": ("changed_settings", "token export of alice"),
    "trouble start flood --no-wait": ("changed_settings", "trouble flood: start"),
    "webhook add ops --url https://hooks.example/x": ("changed_settings", "webhook ops: added"),
    "webhook remove known": ("changed_settings", "webhook known: removed"),
}
#: Commands and actions that neither change anything nor show a row; and those that are recorded
#: and tested elsewhere, against what they need.
ELSEWHERE = {
    "access list", "access forget", "account list", "account role", "account grant",
    "account revoke", "account disable", "account enable", "account password",
    "account remove-second-factor", "actor install",
    "actor remove", "actor status", "alert list", "alert rules", "alert try", "apply",
    "changepassword", "demo", "doctor", "erase", "lake maintain", "lake run",
    "lake status", "mask add", "mask list", "mask preview",
    "mask remove", "migrate", "monitoring", "secrets rotate", "slot add", "slot columns",
    "slot list", "slot log", "slot peek", "slot remove", "slot start", "slot stop", "slot tables",
    "source add", "source credentials", "source list", "source move", "source remove", "spark",
    "store", "token list", "token revoke", "trouble list", "trouble end", "up", "watch",
    "webhook list", "webhook test",
}  # fmt: skip


def every_action() -> Iterator[str]:
    """``slot add``, ``doctor`` …: each command, or each of its actions."""
    for path in sorted(Path(commands.__file__).parent.glob("[a-z]*.py")):
        name = path.stem
        parser = load_command_class("replview", name).create_parser("replview", name)
        inner = [one for one in parser._actions if isinstance(one, _SubParsersAction)]
        yield from (f"{name} {action}" for one in inner for action in one.choices)
        if not inner:
            yield name


def test_of_every_command_it_is_known_whether_it_is_recorded() -> None:
    told = set(every_action())
    tried = {name for name in told if any(f"{line} ".startswith(f"{name} ") for line in RECORDED)}

    assert told - tried == ELSEWHERE


@pytest.fixture
def shown(db, settings, monkeypatch) -> dict[str, int]:
    """A store with something of everything; what its rows are called by."""
    settings.DEMO = True
    monkeypatch.setattr(troubles, "maker_is_alive", lambda: True)
    monkeypatch.setenv("DJANGO_SUPERUSER_USERNAME", "root")
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", "correct-horse")
    make_partitions()
    history = History()
    history.commit(insert(1))
    Slot.objects.update(owned=True)
    make_user("alice")
    Webhook.objects.create(name="known", host="h", sealed_url="", sealed_secret="")
    Baseline.objects.create(slot=history.slot, schema="public", table="orders")
    Quarantine.objects.create(
        slot=history.slot, incarnation=history.incarnation, xid=7, raw=b"x", raw_bytes=1, cause="c",
        remedy="r",
    )  # fmt: skip
    export = Export.objects.create(
        slot=history.slot, slot_name=str(history.slot), slice={}, target="/nowhere",
        requested_by="somebody", requested_how="page",
    )  # fmt: skip
    Lake.objects.create(name="known", slot=history.slot, slot_name=str(history.slot),
                        format="delta", root="/nowhere")  # fmt: skip
    return {"export": export.pk}


@pytest.mark.parametrize(("line", "record"), RECORDED.items(), ids=list(RECORDED))
def test_it_is_recorded_under_the_account_that_ran_it(run, shown, line, record) -> None:
    action, subject = (part.format(**shown) for part in record)
    run(*line.format(**shown).split())

    found = AccessRecord.objects.filter(action=action).latest("id")
    assert (found.subject, found.user_name, found.via) == (subject, getpass.getuser(), "command")


def test_what_was_not_done_is_not_recorded(run, shown) -> None:
    instance_settings.write("exports.allowed", True, "test")
    run("slot", "interface", "shop", "replview", "walsender")

    assert not AccessRecord.objects.exists()

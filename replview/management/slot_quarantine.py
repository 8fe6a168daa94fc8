"""``replview slot quarantine``: show a message that could not be stored, and decide about it."""

from typing import Any

from django.core.management.base import CommandError

from replview.features.slots.quarantine_text import tag_words, thing
from replview.management import instance
from replview.store.models import Quarantine
from replview.store.quarantine import decide, open_quarantine, settled_quarantines, skip_word
from replview.store.write.access_record import Action, command_user, note
from replview.text.formats import bytes_words


def add_quarantine(actions: Any) -> None:
    """Add the parser of ``slot quarantine``."""
    help_text = "show the message that could not be stored, and retry or skip it"
    parser = instance.add_slot_action(actions, "quarantine", help_text)
    decision = parser.add_mutually_exclusive_group()
    decision.add_argument("--retry", action="store_true", help="receive the message again, after "
                          "its cause was fixed")  # fmt: skip
    decision.add_argument("--skip", metavar="XID", help="never store this transaction; the gap "
                          "is recorded with your name")  # fmt: skip


def quarantine(command: instance.PlainCommand, options: dict[str, Any]) -> None:
    """Print what stops the slot and earlier quarantines, or store the decision."""
    slot = instance.slot_of(options)
    row = open_quarantine(slot)
    if options["retry"] or options["skip"] is not None:
        if row is None:
            raise CommandError(
                f"slot {slot} has no message in quarantine: there is nothing to decide"
            )
        command.say(_decide(row, options["skip"]))
        return
    if row is None:
        command.say(f"slot {slot} has no message in quarantine")
    else:
        command.say(*_lines_of(row))
    for old in settled_quarantines(slot):
        command.say(f"earlier: {_settled(old)}")


def _decide(row: Quarantine, typed: str | None) -> str:
    account = f"command line ({command_user()})"
    confirmation = skip_word(row)
    if typed is not None and not confirmation:
        raise CommandError("the message belongs to no transaction that could be skipped: fix the "
                           "cause and use --retry")  # fmt: skip
    if typed is not None and typed != confirmation:
        raise CommandError(f"it is {thing(row)} that stops the slot, not {typed}: nothing was "
                           "decided")  # fmt: skip
    decision = Quarantine.Decision.RETRY if typed is None else Quarantine.Decision.SKIP
    if not decide(row.pk, decision, account):
        row.refresh_from_db(fields=["decision", "decided_by"])
        decided_by = row.decided_by or "a user"
        raise CommandError(f"{decided_by} has decided already: {row.decision or 'settled'}")
    note(Action.CHANGED_SLOT, subject=f"quarantine of {row.slot}: {decision}",
         source_id=row.slot.source_id, details={"quarantine": row.pk})  # fmt: skip
    if typed is None:
        return "the receiver tries again within a second or two"
    return f"{thing(row)} will never be stored; the gap is recorded under the name of {account}"


def _lines_of(row: Quarantine) -> list[str]:
    lines = [
        f"stopped: {row.cause}",
        f"  found    {row.found_at.astimezone():%Y-%m-%d %H:%M:%S}",
        f"  LSN      {_or_unknown(row.lsn)}",
        f"  table    {row.relation or 'none named'}",
        f"  message  {tag_words(row.tag)}, {bytes_words(row.raw_bytes)}",
        f"  xid      {row.xid if row.xid is not None else 'belongs to none'}",
        f"  commit   {_or_unknown(row.final_lsn)}",
    ]
    if row.gid:
        lines.insert(-1, f"  gid      {row.gid}")
    if row.decision:
        decision_text = (
            f"skip {thing(row)}" if row.decision == Quarantine.Decision.SKIP else "try again"
        )
        return [
            *lines,
            f"{row.decided_by} decided to {decision_text}; the receiver has not done so yet",
        ]
    lines += [f"  remedy   {row.remedy}", "then: --retry"]
    if confirmation := skip_word(row):
        lines.append(f"or:   --skip {confirmation}  (its changes will never be in this record)")
    return lines


def _settled(row: Quarantine) -> str:
    outcome = {"skip": "skipped", "retry": "tried again"}.get(row.decision, "settled")
    subject = f"{thing(row)} " if row.xid is not None or row.lsn is not None else ""
    settled_at = f"{row.settled_at.astimezone():%Y-%m-%d %H:%M:%S}" if row.settled_at else "unknown"
    return f"{settled_at}  {subject}{outcome} by {row.decided_by or 'nobody named'}: {row.cause}"


def _or_unknown(lsn: object) -> str:
    return "unknown" if lsn is None else str(lsn)

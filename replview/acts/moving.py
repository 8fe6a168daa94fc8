"""Move a source to another address of the same cluster, a promoted standby or another cluster."""

from dataclasses import dataclass

from django.conf import settings
from psycopg import conninfo as libpq

from decoder.scalars import LSN
from replview.acts.credentials import (
    Tried,
    candidate_of,
    needs_walsender,
    take_into_use,
    try_address,
    write_down,
)
from replview.acts.publications import remaining_slots
from replview.catalog.plan.plan import Plan
from replview.catalog.problems import SourceProblem
from replview.receiver.incarnation import GAPS, SystemIdentity, new_incarnation
from replview.store.django_session import DjangoSession
from replview.store.dsn import full_conninfo
from replview.store.models import Source
from replview.store.untyped_secrets import UNREAD, check_bound
from replview.store.write.incarnations import SlotRow, read_slot


@dataclass(frozen=True, slots=True)
class SlotOutcome:
    """The effect of a move on one slot."""

    name: str
    #: ``goes on``, ``gap``, ``missing``, ``lost`` or ``other database``.
    word: str
    #: A whole sentence that explains the word.
    sentence: str


def identity_of(tried: Tried) -> SystemIdentity:
    """Return the identity that a walsender reported, or else the one that SQL returned."""
    if tried.identity is not None:
        return tried.identity
    server = tried.server
    return SystemIdentity(server.system_identifier or "", server.timeline or 0, LSN(0))


def _predict_outcome(row: SlotRow, tried: Tried) -> tuple[str, str]:
    """Predict the decision of ``receiver.incarnation``, if nothing changes until it connects."""
    name, facts = row.name, tried.slots.get(row.name)
    if facts is None:
        return "missing", (
            f"The server has no slot {name}: nothing is received until the slot is started again, "
            "which creates a new slot and leaves a gap."
        )
    if facts.database != tried.server.database:
        return "other database", (
            f"Slot {name} of the server belongs to database {facts.database or 'unknown'}: it "
            "cannot be received from this address."
        )
    if facts.wal_status == "lost" or facts.invalidation_reason:
        return "lost", f"Slot {name} of the server is lost: it can never be read again."
    # SQL alone gives no position, which must not be taken for WAL that ends before our record.
    in_recovery = tried.server.in_recovery or tried.identity is None
    incarnation = new_incarnation(
        row,
        _known_identity(row, tried),
        facts.confirmed_flush_lsn or LSN(0),
        in_recovery=in_recovery,
        fork_of=lambda timeline: None if (fork := tried.forks.get(timeline)) is None else LSN(fork),
    )
    if incarnation is None or incarnation.reason in ("created", "adopted"):
        return "goes on", f"Slot {name} continues where its record ends."
    if incarnation.shared_until is not None and incarnation.shared_until >= incarnation.started:
        return "goes on", (
            f"Slot {name} continues in a new incarnation, which shares its history up to "
            f"{incarnation.shared_until}."
        )
    begins = f"Slot {name} begins a new incarnation at {incarnation.started}."
    return "gap", f"{begins} {GAPS[incarnation.reason]}"


def _known_identity(row: SlotRow, tried: Tried) -> SystemIdentity:
    """Return the server's identity, completed from the slot's record where it is unknown."""
    identity = identity_of(tried)
    return SystemIdentity(
        identity.system_identifier or row.system_identifier or "unknown",
        identity.timeline or row.timeline or 0,
        identity.xlog_position,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A move, shown before it is carried out. Its password, if it has one, is sealed."""

    act: Plan
    #: The source with the new address, not saved.
    candidate: Source
    #: ``same``: the same cluster and timeline; ``timeline``: the same cluster on another one, as
    #: after a failover; ``other``: another cluster; ``unknown``: one identifier is unknown.
    kind: str
    outcomes: tuple[SlotOutcome, ...]
    tried: Tried


def plan_move(
    source: Source, dsn: str, password_ref: str = "", *, keep_password: bool = False
) -> Move:
    """Try the address and predict the effect on each slot.

    ``keep_password``: an address without a password gets the stored one. It is sent only to a
    server that authenticates by SCRAM. Raises ``DSNError``, and ``SourceProblem`` where the address
    cannot be reached.
    """
    return _plan(source, _candidate(source, dsn, password_ref, keep_password))


def move_source(
    source: Source,
    dsn: str,
    password_ref: str = "",
    *,
    by: str,
    keep_password: bool = False,
    agreed: str = "",
) -> Move:
    """Try the address again, because time has passed since it was shown, and use it.

    ``agreed``: the kind of move that was shown; if it has changed, nothing is done. Raises
    ``SourceProblem`` and ``DSNError``, and changes nothing then.
    """
    move = plan_move(source, dsn, password_ref, keep_password=keep_password)
    if agreed and agreed != move.kind:
        raise SourceProblem(
            "changed",
            "the server at this address has changed since its plan was shown",
            "Nothing was changed: read the new plan and try again",
        )
    carry_out_move(source, move, by=by)
    return move


def carry_out_move(source: Source, move: Move, *, by: str) -> None:
    """Use an address that was tried just now, without trying it again.

    Raises ``SourceProblem``, and changes nothing then.
    """
    move.act.check()
    server, identity = move.tried.server, identity_of(move.tried)
    take_into_use(
        source,
        move.candidate,
        server_version=server.version,
        system_identifier=identity.system_identifier or source.system_identifier,
        timeline=identity.timeline,
        in_recovery=server.in_recovery,
        encoding=server.encoding,
        max_slot_wal_keep_bytes=server.max_slot_wal_keep_bytes,
        idle_slot_timeout_seconds=server.idle_slot_timeout_seconds,
        hot_standby_feedback=server.hot_standby_feedback,
    )
    outcomes = {outcome.name: outcome.word for outcome in move.outcomes}
    write_down(source, by, "move", "The source was moved to another address.", kind=move.kind,
               slots=outcomes)  # fmt: skip


def _candidate(source: Source, dsn: str, password_ref: str, keep_password: bool) -> Source:
    candidate = candidate_of(source, dsn, password_ref)
    if keep_password and not candidate.sealed_password and not password_ref:
        candidate.sealed_password, candidate.password_ref = (
            source.sealed_password,
            source.password_ref,
        )
        has_password = candidate.sealed_password or candidate.password_ref
        if candidate.password_ref:
            check_bound(candidate.password_ref, candidate.conninfo, source.conninfo)
        if settings.SERVES_PAGES and has_password and not candidate.conninfo.startswith("env:"):
            # Keep the restriction: the server might use SCRAM now and ask for plain text later.
            candidate.conninfo = libpq.make_conninfo(candidate.conninfo, require_auth=UNREAD)
    return candidate


def _plan(source: Source, candidate: Source) -> Move:
    slots = remaining_slots(source).filter(temporary=False).order_by("name")
    store = DjangoSession().connection
    rows = [read_slot(store, pk) for pk in slots.values_list("pk", flat=True)]
    timelines = frozenset(row.timeline for row in rows if row.timeline is not None)
    conninfo = full_conninfo(candidate)
    if candidate.sealed_password and candidate.sealed_password == source.sealed_password:
        # A rogue server at this address must not be able to read the stored password.
        conninfo += f" require_auth={UNREAD}"
    tried = try_address(conninfo, replication=needs_walsender(source), timelines=timelines)
    if tried.replication is not None:
        raise tried.replication.anew()
    kind = _move_kind(source, tried)
    outcomes = tuple(SlotOutcome(row.name, *_predict_outcome(row, tried)) for row in rows)
    act = Plan(
        title=f"Move {source} to another address",
        on=source.name,
        consequences=(
            _move_sentence(source, kind, tried),
            *(outcome.sentence for outcome in outcomes),
        ),
        typed="" if kind == "same" else source.name,
        rests_on=(
            kind,
            identity_of(tried).system_identifier,
            *(f"{outcome.name} {outcome.word}" for outcome in outcomes),
        ),
    )
    return Move(act=act, candidate=candidate, kind=kind, outcomes=outcomes, tried=tried)


def _move_kind(source: Source, tried: Tried) -> str:
    identity = identity_of(tried)
    known_identifier = source.system_identifier
    if not identity.system_identifier or known_identifier in (None, "", "unknown"):
        return "unknown"
    if identity.system_identifier != known_identifier:
        return "other"
    return "same" if identity.timeline in (source.timeline, 0) else "timeline"


def _move_sentence(source: Source, kind: str, tried: Tried) -> str:
    server_text = f"{'a standby' if tried.server.in_recovery else 'a primary'} of PostgreSQL "
    server_text += f"{tried.server.version_text}, database {tried.server.database}"
    if kind == "same":
        return f"It is the same cluster on the same timeline ({server_text})."
    if kind == "timeline":
        return (
            f"It is the same cluster on another timeline ({server_text}), after a failover or a "
            "restore. Slots continue without a gap where both timelines share their history."
        )
    if kind == "other":
        return (
            f"It is another cluster ({server_text}). LSNs of two clusters cannot be compared: "
            "each slot begins a new incarnation, and history shows a gap before it."
        )
    return (
        f"It is unknown whether this is the cluster of {source} ({server_text}): one of the two "
        "does not report its system identifier."
    )

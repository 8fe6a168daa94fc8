"""Functions that pages of acts share: the plan shown, its confirmation, and its outcome."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from django.http import HttpRequest
from django.shortcuts import get_object_or_404

from replview.access.guard import require
from replview.access.rights import Role
from replview.catalog.plan.plan import Plan
from replview.catalog.problems import SourceProblem
from replview.store.dsn import UNUSABLE
from replview.store.models import Slot, Source
from replview.store.secrets import SecretKeyChanged
from replview.text.parsing import clean_text
from replview.ui.params import scope_to

_OUTCOME = "managed"
#: Exceptions about a source, an address or a key, which the page itself shows.
EXPECTED = (SourceProblem, *UNUSABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActPage:
    """A page that shows a plan, or why nothing was done."""

    source: Source
    #: The slot; None for an act on the source, or on a slot that replview does not have yet.
    slot: Slot | None = None
    #: The plan; None where nothing was chosen yet, or it could not be planned.
    act: Plan | None = None
    #: The digest of the plan shown, which the confirmation sends back.
    shown: str = ""
    #: Why nothing was done; None without a problem.
    trouble: SourceProblem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of the user's last act, which its page shows until the next act."""

    title: str
    #: Whole sentences.
    lines: list[str] = field(default_factory=list)
    #: The SQL statements that ran.
    statements: list[str] = field(default_factory=list)
    #: (word, address); the first one is primary.
    links: list[tuple[str, str]] = field(default_factory=list)


def source_for(request: HttpRequest, name: str, role: Role) -> Source:
    """Return the source, if the account has the role there. Raises ``Http404``, ``NeedsRole``."""
    source = get_object_or_404(Source, name=name)
    require(request, role, source)
    return source


def slot_for(request: HttpRequest, source_name: str, slot_name: str, role: Role) -> Slot:
    """Return a slot if the account has the role there, and make it the header's scope."""
    slots = Slot.objects.select_related("source", "incarnation")
    slot = get_object_or_404(slots, source__name=source_name, name=slot_name)
    require(request, role, slot.source)
    scope_to(request, slot)
    return slot


def trouble_of(error: Exception) -> SourceProblem:
    """Return the problem that a page shows for one of ``EXPECTED``."""
    if isinstance(error, SourceProblem):
        return error
    if isinstance(error, SecretKeyChanged):
        return SourceProblem("secret_key_changed", str(error), "")
    cause, _, remedy = str(error).partition(": ")
    return SourceProblem("bad_dsn", cause, remedy)


def digest_of(act: Plan) -> str:
    """Return a digest of the plan shown, which the confirmation sends back."""
    statements = (statement.sql for statement in act.statements)
    text = "\0".join([act.title, act.typed, *act.rests_on, *statements])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def check_confirmed(request: HttpRequest, act: Plan) -> None:
    """Raise ``SourceProblem`` unless the plan is the one that was shown and confirmed."""
    act.check()
    if request.POST.get("shown", "") != digest_of(act):
        raise SourceProblem(
            "changed",
            "the plan has changed since it was shown",
            "Review it and confirm again; nothing was changed",
        )
    act.check_typed(request.POST.get("typed", "")[:200])


def keep_outcome(request: HttpRequest, outcome: Outcome) -> None:
    """Store the outcome in the user's session."""
    request.session[_OUTCOME] = asdict(outcome)


def kept_outcome(request: HttpRequest) -> Outcome | None:
    """Return the outcome of the user's last act; None without one since signing in."""
    stored = request.session.get(_OUTCOME)
    if not isinstance(stored, dict):
        return None
    return Outcome(
        title=stored["title"],
        lines=stored["lines"],
        statements=stored["statements"],
        links=[(word, address) for word, address in stored["links"]],
    )


def statements_of(act: Plan) -> list[str]:
    """Return the plan's statements, each with its semicolon."""
    return [f"{statement.sql};" for statement in act.statements]


def names_in(values: Sequence[str]) -> tuple[str, ...]:
    """Return the names in an address or a form, each once."""
    names = (clean_text(value, 200) for value in values[:2000])
    return tuple(dict.fromkeys(value for value in names if value))

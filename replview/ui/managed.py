"""What the pages of acts share: what was asked for, what was shown before, what came of it."""

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
#: What may be wrong with a source, an address or a key: the page itself shows it.
EXPECTED = (SourceProblem, *UNUSABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActPage:
    """A page that shows what is about to be done, or why nothing was."""

    source: Source
    #: None: the act is on the source, or on a slot that replview does not have yet.
    slot: Slot | None = None
    #: What would be done; None: nothing was chosen yet, or it could not be planned.
    act: Plan | None = None
    #: Names the plan that was shown; the confirmation sends it back.
    shown: str = ""
    #: Why nothing was done; None: nothing went wrong.
    trouble: SourceProblem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was done: shown once it is, for as long as nothing else was."""

    title: str
    #: Whole sentences.
    lines: list[str] = field(default_factory=list)
    #: As they ran.
    statements: list[str] = field(default_factory=list)
    #: (word, address), the first one primary.
    links: list[tuple[str, str]] = field(default_factory=list)


def source_for(request: HttpRequest, name: str, role: Role) -> Source:
    """The source, for who may do this there; for who may not see it there is none."""
    source = get_object_or_404(Source, name=name)
    require(request, role, source)
    return source


def slot_for(request: HttpRequest, source_name: str, slot_name: str, role: Role) -> Slot:
    """The same for a slot of replview's, which also becomes the scope of the page's header."""
    slots = Slot.objects.select_related("source", "incarnation")
    slot = get_object_or_404(slots, source__name=source_name, name=slot_name)
    require(request, role, slot.source)
    scope_to(request, slot)
    return slot


def trouble_of(error: Exception) -> SourceProblem:
    """What a page shows of one of ``EXPECTED``."""
    if isinstance(error, SourceProblem):
        return error
    if isinstance(error, SecretKeyChanged):
        return SourceProblem("secret_key_changed", str(error), "")
    cause, _, remedy = str(error).partition(": ")
    return SourceProblem("bad_dsn", cause, remedy)


def digest_of(act: Plan) -> str:
    """What was shown, to be sent back with the confirmation."""
    statements = (one.sql for one in act.statements)
    shown = "\0".join([act.title, act.typed, *act.rests_on, *statements])
    return hashlib.sha256(shown.encode()).hexdigest()[:24]


def check_confirmed(request: HttpRequest, act: Plan) -> None:
    """Raise ``SourceProblem`` unless what will be done is what was shown, and it was confirmed."""
    act.check()
    if request.POST.get("shown", "") != digest_of(act):
        raise SourceProblem(
            "changed",
            "what would be done is not what was shown",
            "Look at it once more and confirm that; nothing was changed",
        )
    act.check_typed(request.POST.get("typed", "")[:200])


def keep_outcome(request: HttpRequest, outcome: Outcome) -> None:
    request.session[_OUTCOME] = asdict(outcome)


def kept_outcome(request: HttpRequest) -> Outcome | None:
    """Return what this user did last; None: nothing since signing in."""
    kept = request.session.get(_OUTCOME)
    if not isinstance(kept, dict):
        return None
    return Outcome(
        title=kept["title"],
        lines=kept["lines"],
        statements=kept["statements"],
        links=[(word, address) for word, address in kept["links"]],
    )


def statements_of(act: Plan) -> list[str]:
    return [f"{one.sql};" for one in act.statements]


def names_in(values: Sequence[str]) -> tuple[str, ...]:
    """Names out of an address or a form, each once."""
    kept = (clean_text(value, 200) for value in values[:2000])
    return tuple(dict.fromkeys(value for value in kept if value))

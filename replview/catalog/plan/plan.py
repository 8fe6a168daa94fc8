"""A plan as it is shown before it is carried out: statements, consequences, what confirms it."""

from dataclasses import dataclass
from typing import Any

from replview.catalog.problems import SourceProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement on a source, exactly as it will run, without its semicolon."""

    sql: str
    #: The rights it needs there.
    needs: str
    #: What it costs the source.
    costs: str
    #: The statement that takes it back; empty: nothing does.
    undo: str = ""
    #: What it makes: ``publication``, ``slot``, …, and its name.
    kind: str = ""
    name: str = ""

    def __str__(self) -> str:
        return self.sql


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What somebody is about to do. Holds no secret."""

    #: ``Stop receiving shop/replview``: what the button says, without a full stop.
    title: str
    #: Where the statements run: the source's name.
    on: str
    #: Run on the source, in this order; empty: nothing is changed there.
    statements: tuple[Statement, ...] = ()
    #: Whole sentences, the one that matters most first.
    consequences: tuple[str, ...] = ()
    #: To be typed to confirm; empty: a button is enough.
    typed: str = ""
    #: What was found and decides what follows, where the statements do not tell: a confirmation is
    #: of this too.
    rests_on: tuple[str, ...] = ()
    #: Why it cannot be done now; None: it can.
    refusal: SourceProblem | None = None

    def check(self) -> None:
        """Raise ``SourceProblem`` where it cannot be done."""
        if self.refusal is not None:
            raise self.refusal.anew()

    def check_typed(self, text: str) -> None:
        """Raise ``SourceProblem`` unless what confirms it was typed."""
        self.check()
        if self.typed and text.strip() != self.typed:
            raise SourceProblem(
                "not_confirmed",
                f"what was typed is not {self.typed}",
                f"Type {self.typed} to confirm; nothing was changed",
            )


def json_of(plan: Plan) -> dict[str, Any]:
    """For programs."""
    refusal = plan.refusal
    return {
        "title": plan.title,
        "on": plan.on,
        "statements": [
            {"sql": one.sql, "needs": one.needs, "costs": one.costs} for one in plan.statements
        ],
        "consequences": list(plan.consequences),
        "confirm": plan.typed,
        "refused": None
        if refusal is None
        else {"code": refusal.code, "cause": refusal.cause, "remedy": refusal.remedy},
    }

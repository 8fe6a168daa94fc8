"""A plan: statements, consequences and what confirms it, shown before it is carried out."""

from dataclasses import dataclass

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

    def as_json(self) -> dict[str, str]:
        return {"sql": self.sql, "needs": self.needs, "costs": self.costs}


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
            remedy = f"Type {self.typed} to confirm; nothing was changed"
            raise SourceProblem("not_confirmed", f"what was typed is not {self.typed}", remedy)


def json_of(plan: Plan) -> dict[str, object]:
    no = plan.refusal
    return {
        "title": plan.title,
        "on": plan.on,
        "statements": [one.as_json() for one in plan.statements],
        "consequences": list(plan.consequences),
        "confirm": plan.typed,
        "refused": no and {"code": no.code, "cause": no.cause, "remedy": no.remedy},
    }

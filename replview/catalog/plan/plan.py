"""This module defines a plan: statements, consequences and confirmation, shown before it runs."""

from dataclasses import dataclass

from replview.catalog.problems import SourceProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement on a source, exactly as it will run, without its semicolon."""

    sql: str
    #: The rights that the statement needs on the source.
    needs: str
    #: The cost for the source.
    costs: str
    #: The statement that undoes this one; empty: there is none.
    undo: str = ""
    #: The kind of object that is created, such as ``publication`` or ``slot``, and its name.
    kind: str = ""
    name: str = ""

    def __str__(self) -> str:
        return self.sql

    def as_json(self) -> dict[str, str]:
        """Return the statement with its rights and costs."""
        return {"sql": self.sql, "needs": self.needs, "costs": self.costs}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan of what a user is about to do. It holds no secret."""

    #: The text of the button, without a full stop: ``Stop receiving shop/replview``.
    title: str
    #: Name of the source on which the statements run.
    on: str
    #: Statements to run on the source, in order; empty: nothing is changed there.
    statements: tuple[Statement, ...] = ()
    #: Sentences about the effects, the most important first.
    consequences: tuple[str, ...] = ()
    #: The text to type to confirm; empty: a button is enough.
    typed: str = ""
    #: Findings that decide the effects but are not in the statements; the confirmation covers them.
    rests_on: tuple[str, ...] = ()
    #: The reason why the plan cannot be carried out; None: it can.
    refusal: SourceProblem | None = None

    def check(self) -> None:
        """Raise ``SourceProblem`` where the plan cannot be carried out."""
        if self.refusal is not None:
            raise self.refusal.anew()

    def check_typed(self, text: str) -> None:
        """Raise ``SourceProblem`` unless the text that confirms the plan was typed."""
        self.check()
        if self.typed and text.strip() != self.typed:
            remedy = f"Type {self.typed} to confirm; nothing was changed"
            raise SourceProblem("not_confirmed", f"what was typed is not {self.typed}", remedy)


def json_of(plan: Plan) -> dict[str, object]:
    """Return the plan as the API shows it."""
    refusal = plan.refusal
    return {
        "title": plan.title,
        "on": plan.on,
        "statements": [statement.as_json() for statement in plan.statements],
        "consequences": list(plan.consequences),
        "confirm": plan.typed,
        "refused": refusal
        and {"code": refusal.code, "cause": refusal.cause, "remedy": refusal.remedy},
    }

"""An act as it is shown before it is done: statements, consequences, what confirms it."""

from dataclasses import dataclass
from typing import Any

from replview.catalog.problems import SourceTrouble, Trouble
from replview.store.models import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement on a source, exactly as it will run, without its semicolon."""

    sql: str
    #: The rights it needs there.
    needs: str
    #: What it costs the source.
    costs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
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
    refusal: Trouble | None = None

    def check(self) -> None:
        """Raise ``SourceTrouble`` where it cannot be done."""
        if self.refusal is not None:
            raise SourceTrouble(self.refusal)

    def check_typed(self, text: str) -> None:
        """Raise ``SourceTrouble`` unless what confirms it was typed."""
        self.check()
        if self.typed and text.strip() != self.typed:
            raise SourceTrouble(
                Trouble(
                    "not_confirmed",
                    f"what was typed is not {self.typed}",
                    f"Type {self.typed} to confirm; nothing was changed",
                )
            )


def declared_words(source: Source) -> str:
    """What a change by hand comes to where a file declares the source; empty: none does."""
    if not source.managed_by:
        return ""
    return (
        f"{source} is declared in {source.managed_by}: what the file says of it and of its slots "
        "comes back when it is applied again. Change it there."
    )


def lines_of(act: Act) -> list[str]:
    """For a terminal: every statement with its rights and cost, then what follows."""
    lines = [f"on {act.on} this will run:" if act.statements else f"on {act.on} nothing is changed"]
    for statement in act.statements:
        lines += [
            f"  {statement.sql};",
            f"      needs: {statement.needs}",
            f"      costs: {statement.costs}",
        ]
    return lines + [f"  {sentence}" for sentence in act.consequences]


def json_of(act: Act) -> dict[str, Any]:
    """For programs."""
    refusal = act.refusal
    return {
        "title": act.title,
        "on": act.on,
        "statements": [
            {"sql": one.sql, "needs": one.needs, "costs": one.costs} for one in act.statements
        ],
        "consequences": list(act.consequences),
        "confirm": act.typed,
        "refused": None
        if refusal is None
        else {"code": refusal.code, "cause": refusal.cause, "remedy": refusal.remedy},
    }

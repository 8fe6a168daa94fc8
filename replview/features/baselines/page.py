"""The page of a slot's baselines: their progress, and the form that requests more."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import QueryDict

from replview.features.baselines.text import BaselineForm, BaselineRow, rows_of, sentence
from replview.jobs import baselines as store
from replview.store.models import Baseline, Slot
from replview.text.parsing import table_word
from replview.ui.sentence import BASELINE_COST, Sentence

#: Baselines listed, the newest first.
SHOWN = 100
#: Maximum number of tables in a form; the command can request more.
MOST_TABLES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselinesPage:
    """A slot's baselines, and the form that requests more."""

    slot: Slot
    #: Running and waiting baselines first, then the newest.
    rows: Sequence[BaselineRow]
    form: BaselineForm
    sentence: Sentence
    #: The reason why no baseline of this slot can be requested; empty if one can.
    refusal: str
    #: A sentence that says what reading a table costs its source.
    cost: str = BASELINE_COST


def build_page(slot: Slot, form: BaselineForm) -> BaselinesPage:
    """Read the slot's baselines for a page with this form."""
    rows = rows_of(_listed_baselines(slot))
    return BaselinesPage(
        slot=slot, rows=rows, form=form, sentence=sentence(slot, rows), refusal=refusal_of(slot)
    )


def build_form(slot: Slot, query: QueryDict) -> BaselineForm:
    """Return the form of a slot; ``?table=public.orders`` chooses a table."""
    done = Baseline.objects.filter(
        slot=slot, incarnation=slot.incarnation, state=Baseline.State.DONE
    ).values_list("schema", "table")
    return BaselineForm(
        store.tables_of(slot),
        {table_word(schema, table) for schema, table in done},
        set(query.getlist("table")[:MOST_TABLES]),
    )


def refusal_of(slot: Slot) -> str:
    """Return the reason why no baseline of the slot can be requested; empty if one can."""
    if slot.plugin != "pgoutput":
        return f"The output plugin of the slot is {slot.plugin}, and a baseline needs pgoutput"
    if slot.desired == Slot.Desired.REMOVING:
        return "The slot is being removed"
    return ""


def _listed_baselines(slot: Slot) -> list[Baseline]:
    """Return running and waiting baselines first, then the newest."""
    baselines = list(Baseline.objects.filter(slot=slot).order_by("-id")[:SHOWN])
    rank = {Baseline.State.RUNNING: 0, Baseline.State.WAITING: 1}
    return sorted(baselines, key=lambda baseline: rank.get(Baseline.State(baseline.state), 2))

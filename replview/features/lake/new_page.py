"""The page that adds a lake: its fields, and whether they can be added."""

import shlex
from dataclasses import dataclass
from typing import Any

from replview.features.lake.forms import DEFAULT_ROOT, LakeForm
from replview.features.lake.request import recorded_tables, refused_now
from replview.store.models import Lake, Slot
from replview.targets.policy import read_policy
from replview.ui.job_pages import SummaryPart, tables_words
from replview.ui.sentence import Sentence, refusal

#: Parameters that may occur several times.
LISTS = ("tables",)
_TABLES_OFFERED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLakePage:
    """The content of the page that adds a lake."""

    form: LakeForm
    words: dict[str, str]
    #: Tables of the slot to choose from.
    tables: list[str]
    sentence: Sentence

    @property
    def hidden(self) -> list[tuple[str, str]]:
        """Return all parameters, as hidden fields of a form."""
        return list(self.words.items())

    @property
    def tables_words(self) -> str:
        """Return the chosen tables in words, such as ``orders, payments``."""
        return tables_words(self.form.chosen) if self.form.chosen else "none chosen"

    @property
    def summary(self) -> list[SummaryPart]:
        """Return the sentence that sums up the fields."""
        words, lake = self.words, self.form.lake
        format_ = dict(Lake.Format.choices).get(words.get("format", ""), Lake.Format.DELTA.label)
        minutes = words.get("every_minutes", "")
        return [
            SummaryPart("Keep", self.tables_words if self.form.chosen else "no table yet"),
            SummaryPart(" of", words["slot"]),
            SummaryPart(" as", f"{format_} tables"),
            SummaryPart(" in", lake.root if lake else words.get("root", "") or DEFAULT_ROOT),
            SummaryPart(", and read", "what is new"),
            SummaryPart(" ", f"every {minutes} min" if minutes else "when somebody asks"),
        ]

    @property
    def command(self) -> str:
        """Return the command that adds the same lake; empty while it cannot be added."""
        lake = self.form.lake
        if lake is None:
            return ""
        added = add_command(lake.name, lake.slot_name, lake.root, self.form.chosen, lake.format)
        minutes = lake.every_minutes
        return f"{added}\nreplview lake schedule {lake} {minutes}" if minutes else added


def read_new_lake_page(
    slot: Slot, form: LakeForm, words: dict[str, str], *, anywhere: bool
) -> NewLakePage:
    """Return the content of the page for these parameters."""
    elsewhere = ", another folder or a URL such as s3://bucket/lake" if anywhere else ""
    form["root"].help_text = f"A folder within {read_policy().root}{elsewhere}."
    tables = recorded_tables(slot)[:_TABLES_OFFERED]
    tables += (name for name in form.chosen if name not in tables)
    return NewLakePage(
        form=form, words={"slot": str(slot)} | words, tables=tables, sentence=_sentence(form, slot)
    )


def _sentence(form: LakeForm, slot: Slot) -> Sentence:
    """Return the sentence about the lake, its first problem first."""
    if refused := refused_now():
        return refusal("idle", "Exports are switched off, and lakes with them.", refused)
    if not form.is_bound:
        cause = f"It keeps tables of {slot} in Delta or Iceberg."
        return Sentence(level="idle", title="A new lake.", cause=cause, next="choose its tables.")
    if form.errors:
        errors: Any = next(iter(form.errors.values()))
        cause = " ".join(errors)
        return Sentence(level="look", title="This lake cannot be added:", cause=cause)
    return Sentence(
        level="ok",
        title=f"Ready to add lake {form.lake}.",
        cause="Nothing is written until its first run.",
        next="add it, or change the fields.",
        ready=True,
    )


def add_command(
    name: str, slot: str, root: str, tables: list[str], format_: str = Lake.Format.DELTA
) -> str:
    """Return the command that adds a lake."""
    words = ["replview", "lake", "add", name, "--slot", slot, "--root", root, "--format", format_]
    for table in tables:
        words += ["--table", table]
    return shlex.join(words)

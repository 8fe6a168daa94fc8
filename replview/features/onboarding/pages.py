"""The content of each page of onboarding."""

from dataclasses import dataclass
from datetime import datetime

from replview.features.onboarding import plan_page, steps
from replview.features.onboarding.address_form import AddressForm
from replview.features.onboarding.checking import Checked
from replview.features.onboarding.column_choice import ColumnChoice, ColumnForm
from replview.features.onboarding.option_choice import OptionForm
from replview.features.onboarding.plan_page import CarriedOut, Review
from replview.features.onboarding.steps import Frame, KindWords, frame_of
from replview.features.onboarding.table_choice import TableChoice, TableForm
from replview.store.models import Source, SourceDraft


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorPage:
    """The check of a source that was added already."""

    source: Source
    checked: Checked
    checked_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A draft that its user can continue."""

    draft: SourceDraft
    words: KindWords
    #: Address of the page that continues the draft.
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPage:
    """The kinds of onboarding, and the drafts that the user can continue."""

    begun: tuple[Begun, ...]
    #: The end of a draft: ``expired``, ``left`` (nothing remains on the source) or ``remains``;
    #: empty if no draft has just ended.
    notice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionPage:
    """The step that asks for the source's address."""

    frame: Frame
    form: AddressForm


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPage:
    """The first step for a source that was added already."""

    frame: Frame
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPage:
    """The step that shows the findings about the source."""

    frame: Frame
    checked: Checked
    #: Name of the source that is the same database; empty if there is none.
    known: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesPage:
    """The step that chooses tables."""

    frame: Frame
    choice: TableChoice
    form: TableForm


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsPage:
    """The step that chooses columns to leave out or to mask."""

    frame: Frame
    choice: ColumnChoice
    form: ColumnForm
    #: True when the user chose a table, so that the keyboard focus moves to its columns.
    asked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionsPage:
    """The step that chooses the slot's options."""

    frame: Frame
    form: OptionForm


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewPage:
    """The step that shows every statement before it runs."""

    frame: Frame
    review: Review
    #: True when the statements differ from those that the user agreed to.
    changed: bool
    #: A label and the choice made, for each step.
    chosen: tuple[tuple[str, str], ...]
    wants_baseline: bool
    #: True when the last attempt failed.
    failed: bool
    #: Address of the step that fixes the problem; empty if there is none.
    mended_at: str


def review_page(draft: SourceDraft, review: Review, *, changed: bool) -> ReviewPage:
    """Build the page of the review."""
    step_exists = review.mended_in in steps.names_of(draft)
    return ReviewPage(
        frame=frame_of(draft.kind, "review", draft),
        review=review,
        changed=changed,
        chosen=tuple(plan_page.chosen_words(draft.answers)),
        wants_baseline=bool((draft.answers.get("options") or {}).get("baseline")),
        failed=draft.state == SourceDraft.State.FAILED,
        mended_at=steps.step_url(draft, review.mended_in) if step_exists else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressPage:
    """The page that shows the state of each step while a draft is carried out."""

    frame: Frame
    work: CarriedOut
    #: Address of the page that follows; empty while there is none.
    following: str


def progress_page(draft: SourceDraft) -> ProgressPage:
    """Build the page of a draft that is carried out or has ended."""
    return ProgressPage(
        frame=frame_of(draft.kind, "review", draft),
        work=plan_page.carried_out(draft),
        following=plan_page.next_address(draft),
    )

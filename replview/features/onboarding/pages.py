"""What each page of adding a source shows."""

from dataclasses import dataclass
from datetime import datetime

from replview.features.onboarding import plan_page, steps
from replview.features.onboarding.address_form import STRING, AddressForm
from replview.features.onboarding.checking import Checked
from replview.features.onboarding.column_choice import KEEPING, ColumnChoice
from replview.features.onboarding.option_choice import OptionForm
from replview.features.onboarding.plan_page import CarriedOut, Review
from replview.features.onboarding.steps import Frame, KindWords, frame_of
from replview.features.onboarding.table_choice import TableChoice
from replview.store.models import Source, SourceDraft


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorPage:
    """The health check of a source that is known."""

    source: Source
    checked: Checked
    checked_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A draft that its user may go on with."""

    draft: SourceDraft
    words: KindWords
    #: Where to go on.
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPage:
    """The ways to begin, and what was begun before."""

    begun: tuple[Begun, ...]
    #: What became of a draft: ``expired``, ``left`` (nothing remains) or ``remains``; empty: no
    #: draft was left.
    notice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionPage:
    """The step in which an address is entered."""

    frame: Frame
    form: AddressForm
    #: The field in which the cursor stands.
    focus: str


def connection_page(
    form: AddressForm, kind: str, draft: SourceDraft | None = None
) -> ConnectionPage:
    focus = form.first_wrong or ("dsn" if form.how == STRING else "host")
    return ConnectionPage(frame=frame_of(kind, "connection", draft), form=form, focus=focus)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPage:
    """The first step for a source whose address is known."""

    frame: Frame
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPage:
    """The step that says what the source lacks."""

    frame: Frame
    checked: Checked
    #: The source that is this very database already; empty: none.
    known: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TablesPage:
    """The step in which tables are chosen."""

    frame: Frame
    choice: TableChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsPage:
    """The step that says which columns are not kept."""

    frame: Frame
    choice: ColumnChoice
    #: The user chose a table: whoever reads with a keyboard goes on there.
    asked: bool
    #: As a form's choices.
    keeping: tuple[tuple[str, str], ...] = KEEPING


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionsPage:
    """The step in which the slot's options are chosen."""

    frame: Frame
    form: OptionForm


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewPage:
    """The step that shows every statement before it runs."""

    frame: Frame
    review: Review
    #: Other statements would run than those that were agreed to.
    changed: bool
    #: (what, choice), a line a step.
    chosen: tuple[tuple[str, str], ...]
    wants_baseline: bool
    #: The last try failed.
    failed: bool
    #: The step in which the trouble is mended; empty: none.
    mended_at: str


def review_page(draft: SourceDraft, review: Review, *, changed: bool) -> ReviewPage:
    known = review.mended_in in steps.names_of(draft)
    return ReviewPage(
        frame=frame_of(draft.kind, "review", draft),
        review=review,
        changed=changed,
        chosen=tuple(plan_page.chosen_words(draft.answers)),
        wants_baseline=bool((draft.answers.get("options") or {}).get("baseline")),
        failed=draft.state == SourceDraft.State.FAILED,
        mended_at=steps.step_url(draft, review.mended_in) if known else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressPage:
    """What is being carried out, step by step."""

    frame: Frame
    work: CarriedOut
    #: The page that follows; empty: not yet.
    following: str


def progress_page(draft: SourceDraft) -> ProgressPage:
    return ProgressPage(
        frame=frame_of(draft.kind, "review", draft),
        work=plan_page.carried_out(draft),
        following=plan_page.next_address(draft),
    )

"""The parameters of a filter in the API, which are those of the pages' addresses."""

from ninja import Field, Schema

from replview.access.visibility import reading_session
from replview.store.read.table_names import unknown_words
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.ui.api.answers import BadRequest

#: Seconds that one answer may search before it returns a cursor to go on.
BUDGET_SECONDS = 2.0
PAGE = 100
PAGE_MOST = 1000


class FilterWords(Schema):
    """The conditions of a filter; an empty one does not restrict."""

    slot: str = Field("", description="`source/name`")
    tables: str = Field("", description="`schema.table`, several with commas")
    ops: str = Field("", description="some of I U D T M S: `ops=UD`")
    states: str = Field("", description="committed, aborted, `rolled back`, prepared, open …")
    actor: str = Field("", description="exactly; `?`: nobody was named")
    origin: str = Field("", description="exactly; `-`: written on the source itself")
    q: str = Field("", description="text in names, and in values of each one's first 200 changes")
    id: str = Field("", description="a gid or xid")
    min_changes: str = Field("", description="at least so many changes")
    min_bytes: str = Field("", description="at least so large")
    prepared_min: str = Field("", description="prepared for at least so many seconds")
    since: str = Field("", description="an ISO time, or an age: `2h`, `7d`")
    until: str = Field("", description="the same")
    from_lsn: str = Field(
        "", description="commits at or after it, of the slot's present incarnation"
    )
    to_lsn: str = Field(
        "", description="commits at or before it, of the slot's present incarnation"
    )

    def given(self) -> dict[str, object]:
        """Return the parameters that are not empty."""
        return {name: value for name, value in self.dict().items() if value}


class Paging(Schema):
    """The cursor and size of a page."""

    cursor: str = Field("", description="`older` or `newer` of an earlier answer")
    limit: int = Field(PAGE, ge=1, le=PAGE_MOST)


def transaction_filter(words: FilterWords) -> TransactionFilter:
    """Return the filter. Raises ``BadRequest`` for an invalid parameter, instead of ignoring it."""
    filter_ = TransactionFilter.from_words(words.given())
    if filter_.misread:
        raise BadRequest(f"not understood: {', '.join(filter_.misread)}", "see /api/v1/docs")
    if unknown := unknown_words(reading_session(), filter_.tables, filter_.slot):
        raise BadRequest(unknown, "see /api/v1/relations")
    return filter_

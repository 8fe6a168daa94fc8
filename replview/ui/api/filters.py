"""The parameters of a filter in the API, which are those of the pages' addresses."""

from typing import Any

from ninja import Field, Schema
from pydantic import create_model

from replview.access.visibility import reading_session
from replview.store.read.table_names import unknown_words
from replview.store.read.transactions.fields import FIELDS
from replview.store.read.transactions.transaction_filter import TransactionFilter
from replview.ui.api.answers import BadRequest

#: Seconds that one answer may search before it returns a cursor to go on.
BUDGET_SECONDS = 2.0
PAGE = 100
PAGE_MOST = 1000
_PARAMETERS: dict[str, Any] = {
    field.parameter: (str, Field("", description=field.description)) for field in FIELDS
}


class FilterWords(create_model("_FilterWords", __base__=Schema, **_PARAMETERS)):  # type: ignore[misc]
    """The conditions of a filter; an empty one does not restrict."""

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

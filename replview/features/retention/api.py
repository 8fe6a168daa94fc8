"""API of the store: its size, its forecast, and how long each slot keeps its record."""

from datetime import date

from django.http import HttpRequest
from ninja import Field, Router, Schema

from replview.access.page import VIEWER, page
from replview.store.retention import size as store_size
from replview.store.retention.forecast import SlotForecast, forecast, slot_forecasts
from replview.store.retention.policy import days_of

router = Router(tags=["store"])


class KeptOut(Schema):
    """The retention of one slot, and its size in the store; sizes are estimates."""

    slot: str
    keep_for_days: int | None = Field(description="null: for ever")
    keep_at_most_bytes: int | None = Field(description="null: whatever it takes")
    store_bytes: int | None = Field(description="null: not counted yet")
    first_day: date | None
    bytes_per_day: float | None = Field(description="over the last week's whole days")
    levels_off_bytes: int | None
    days_left: float | None = Field(description="until it has what it may keep at most")
    stuck: str = Field(description="why it keeps more than it should; empty: it does not")


class StoreOut(Schema):
    """The store as a whole; null is unknown, or not set."""

    size_bytes: int
    budget_bytes: int | None
    protect: str
    free_bytes: int | None = Field(description="left on its disk, where that can be told")
    fills: str = Field(description="what fills first: `budget`, `disk`, or empty: unknown")
    room_bytes: int | None
    bytes_per_day: float | None = Field(description="over the last week, or as much as is known")
    days_left: float | None = Field(description="at that rate; null: unknown, or it does not grow")
    days_left_at_last_day: float | None = Field(description="at the last day's rate")
    slots: list[KeptOut]


@page(role=VIEWER)
@router.get("/store", response=StoreOut, summary="The store's size and forecast")
def store(request: HttpRequest) -> dict[str, object]:
    """Return the store's size, the forecast of when it is full, and the retention of each slot."""
    store_forecast = forecast()
    budget, protect = store_size.chosen()
    rate = store_forecast.rate
    return {
        "size_bytes": store_forecast.size_bytes,
        "budget_bytes": budget,
        "protect": protect,
        "free_bytes": store_forecast.free_bytes,
        "fills": store_forecast.of,
        "room_bytes": store_forecast.room_bytes,
        "bytes_per_day": None if rate is None else rate.bytes_per_day,
        "days_left": store_forecast.days_left(rate),
        "days_left_at_last_day": store_forecast.days_left(store_forecast.day),
        "slots": [_slot_json(forecast) for forecast in slot_forecasts()],
    }


def _slot_json(forecast: SlotForecast) -> dict[str, object]:
    days = days_of(forecast.slot.pk)
    return {
        "slot": str(forecast.slot),
        "keep_for_days": forecast.slot.keep_for_days,
        "keep_at_most_bytes": forecast.slot.keep_at_most_bytes,
        "store_bytes": forecast.store_bytes,
        "first_day": days[0].day if days else None,
        "bytes_per_day": forecast.bytes_per_day,
        "levels_off_bytes": forecast.levels_off_bytes,
        "days_left": forecast.days_left,
        "stuck": forecast.stuck,
    }

"""Draws the tables, rows, actors, times and positions that the benchmark requests.

Frequent and rare ones are chosen by name, the rest by a seeded draw, so that every run
requests the same.
"""

import datetime as dt
import json
import random
from dataclasses import dataclass
from typing import Any

from django.db import connection

from replview.store.models import Slot, Transaction
from tests.benchmarks.pages.scale import Plan, Scale
from tests.benchmarks.pages.tables import HOT, RARE, SEARCHED, tables

SLOT = "shop/replview"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: how it is found."""

    relation_id: int
    table: str
    key: dict[str, str]


class Draws:
    """Draws values for requests from one filled store."""

    def __init__(self, scale: Scale, seed: int = 7) -> None:
        self.draw = random.Random(seed)
        self.slot = Slot.objects.select_related("source").get(name="replview", source__name="shop")
        self.tables = tables(scale.tables)
        self.relations = {
            relation.table: relation.pk for relation in self.slot.relations.order_by("oid")
        }
        end = Transaction.objects.filter(
            incarnation_id=self.slot.incarnation_id, commit_seq__isnull=False
        ).order_by("-commit_seq")[0]
        assert end.commit_time is not None
        self.end: dt.datetime = end.commit_time
        self.plan = Plan(scale, self.end)
        large = self._rows("SELECT id FROM transaction WHERE xid = %s", [1000 + self.plan.large])
        self.large = int(large[0][0])

    def name(self, position: int) -> str:
        """``public.orders`` for 0, the most frequent, and so on."""
        table = self.tables[min(position, len(self.tables) - 1)]
        return f"public.{table.name}"

    @property
    def frequent(self) -> str:
        """The table with the most changes."""
        return self.name(0)

    @property
    def rare(self) -> str:
        """The one that hardly ever changes."""
        return self.name(RARE)

    @property
    def searched(self) -> str:
        """The one with a hundred thousand changes in its last day."""
        return self.name(SEARCHED)

    def any_table(self) -> str:
        """Any but the rare one."""
        return self.name(self.draw.randrange(min(RARE, len(self.tables))))

    def moment(self, *, oldest: float = 1.0) -> dt.datetime:
        """Some moment of the record, of its last part if ``oldest`` is less than 1."""
        age = self.draw.random() * oldest * self.plan.scale.days * 86400
        return self.end - dt.timedelta(seconds=age)

    def number(self) -> int:
        """Some transaction of the second incarnation."""
        return self.draw.randrange(self.plan.second_incarnation, self.plan.scale.transactions)

    def transactions(self, count: int) -> list[dict[str, Any]]:
        """Some transactions with several changes."""
        xids = [1000 + self.number() for _ in range(count * 4)]
        rows = Transaction.objects.filter(
            xid__in=xids, incarnation_id=self.slot.incarnation_id, state="committed", inserts__gt=1
        )[:count]
        return list(rows.values("id", "xid", "gid", "commit_seq", "commit_lsn", "commit_time"))

    def rows(self, count: int, *, table: str = "", hot: bool = False) -> list[Row]:
        """Some rows with updates, each known by its key."""
        found: list[Row] = []
        by_relation = {pk: name for name, pk in self.relations.items()}
        while len(found) < count:
            chosen = self.name(HOT) if hot else table or self.any_table()
            relation_id = self.relations[chosen.partition(".")[2]]
            at = self.moment(oldest=0.5).timestamp()
            low = int(at // 3600) << 32
            sql = """
                SELECT c.relation_id, v.key_columns, coalesce(c.new, c.old) FROM change c
                JOIN relation_version v ON v.id = c.version_id
                WHERE c.transaction_id BETWEEN %s AND %s AND c.relation_id = %s AND c.op = 'U'
                LIMIT 1 OFFSET %s
            """
            parameters = [low, low + (12 << 32), relation_id, self.draw.randrange(20)]
            for relation, columns, document in self._rows(sql, parameters):
                values = json.loads(document)
                key = {name: values[name] for name in json.loads(columns)}
                if key:
                    found.append(Row(relation, f"public.{by_relation[relation]}", key))
        return found

    def gids(self, count: int) -> list[str]:
        """Some gids of long ago."""
        return [f"order-{self.number() // 100 * 100 + 50:08d}" for _ in range(count)]

    @staticmethod
    def _rows(sql: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

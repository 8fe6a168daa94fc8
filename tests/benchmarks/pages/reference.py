"""A fixed piece of work much like a page's: what this machine takes for it now.

Fifty rows, each read by its primary key, and a template of fifty lines. Nobody changes it, so a
figure divided by it compares across machines and across noisy hours.
"""

from django.db import connection
from django.template import engines

from tests.benchmarks.pages.measuring import Cost, read_cost

ROWS = 50
_TEMPLATE = """{% for row in rows %}<tr id="t{{ row.0 }}"><td>{{ row.1|default_if_none:"unknown" }}
</td><td>{{ row.2 }}</td><td>{{ row.3|date:"j M H:i:s" }}</td><td>{{ row.4 }}</td></tr>
{% endfor %}"""
_READ = "SELECT id, actor, xid, commit_time, relations FROM transaction WHERE id = %s"


class Reference:
    """The work, on rows that stay the same."""

    def __init__(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT id FROM transaction WHERE commit_seq %% 100 = 1 LIMIT %s", [ROWS]
            )
            self._ids = [row[0] for row in cursor.fetchall()]
        self._template = engines["django"].from_string(_TEMPLATE)

    def cost(self) -> Cost:
        """Do it once."""
        return read_cost(self._work)

    def _work(self) -> None:
        rows = []
        with connection.cursor() as cursor:
            for identifier in self._ids:
                cursor.execute(_READ, [identifier])
                rows.append(cursor.fetchone())
        self._template.render({"rows": rows})

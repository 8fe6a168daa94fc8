"""Remove the row filters of publications from records of access that were written before they were
withheld there: a row filter quotes values of rows.
"""

import json

from django.db import migrations

_WITH_FILTERS = """
    SELECT at, id, details::text FROM access_record WHERE position(' WHERE (' IN details::text) > 0
"""
_REFUSE = "SELECT pg_get_functiondef('access_record_refuse'::regproc)"
# The trigger refuses changes. Its function is another one in this transaction only, which no other
# session sees, so that nobody waits and no other change is let through.
_ALLOW = """
    CREATE OR REPLACE FUNCTION access_record_refuse() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN RETURN NEW; END'
"""
_ADD = """
    SELECT access_record_add('forgot_access_record', NULL, '', 'command', '', '', '',
                             'row filters of publications', NULL, '{}', '{}', %s)
"""
_WITHHELD = 'withheld: it may hold a value that is not shown'


def without_row_filters(details):
    """Return details with each statement cut at its first row filter, as new records have them.

    This is a copy: what the code does later does not alter the migration.
    """
    if isinstance(details, str):
        head, where, _ = details.partition(' WHERE (')
        return f'{head}{where}{_WITHHELD}) …' if where else details
    if isinstance(details, dict):
        return {name: without_row_filters(value) for name, value in details.items()}
    if isinstance(details, list):
        return [without_row_filters(value) for value in details]
    return details


def remove(apps, schema_editor):
    """Replace the filters as in records that are written today, and record in how many."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(_WITH_FILTERS)
        found = [(at, number, json.loads(text)) for at, number, text in cursor.fetchall()]
        new = [(at, number, without_row_filters(details)) for at, number, details in found]
        changed = [row for row, before in zip(new, found) if row != before]
        if not changed:
            return
        cursor.execute(_REFUSE)
        [(refuse,)] = cursor.fetchall()
        cursor.execute(_ALLOW)
        for at, number, details in changed:
            cursor.execute('UPDATE access_record SET details = %s WHERE at = %s AND id = %s',
                           [json.dumps(details), at, number])
        cursor.execute(refuse)
        cursor.execute(_ADD, [json.dumps({'records': len(changed)})])


class Migration(migrations.Migration):

    dependencies = [('store', '0033_details_of_results')]
    operations = [migrations.RunPython(remove, migrations.RunPython.noop)]

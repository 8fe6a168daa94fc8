"""Renames of sources that were logged with the former name in their sentence alone have it in
``detail`` too, as new ones do.
"""

from django.db import migrations

_SENTENCE = '^The source (.+) is called .+ now\\.'
_ADD = f"""
    UPDATE slot_event
    SET detail = detail || jsonb_build_object('former', substring(message FROM '{_SENTENCE}'))
    WHERE detail->>'act' = 'rename' AND NOT detail ? 'former'
      AND message ~ '{_SENTENCE}'
"""


class Migration(migrations.Migration):

    dependencies = [('store', '0036_second_factors')]
    operations = [migrations.RunSQL(_ADD, migrations.RunSQL.noop)]

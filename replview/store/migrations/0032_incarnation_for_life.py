"""Stored JSON and codes say ``incarnation`` where they said ``life``, as pages and commands do."""

from django.db import migrations


def _renamed(json, old, new):
    """Return the SQL of a JSON object with another name for one of its keys."""
    return f"{json} - '{old}' || jsonb_build_object('{new}', {json}->'{old}')"


def _statements(old, new, *, many):
    """Return the statements that write ``new`` in place of ``old``; ``many`` are both plurals."""
    reported = "(result->'told')"
    return f"""
        UPDATE history_job SET words = {_renamed('words', old, new)} WHERE words ? '{old}';
        UPDATE history_job SET result = jsonb_set(result, '{{told}}', {_renamed(reported, old, new)})
            WHERE {reported} ? '{old}';
        UPDATE baseline SET problem_code = '{new}_ended' WHERE problem_code = '{old}_ended';
        UPDATE slot_event SET detail = {_renamed('detail', f'dropped_{old}', f'dropped_{new}')}
            WHERE kind = 'budget' AND detail ? 'dropped_{old}';
        UPDATE setting SET value = {_renamed('value', *many)}
            WHERE name = 'retention.deleting' AND value ? '{many[0]}';
        UPDATE setting SET value = (
                SELECT jsonb_object_agg(slot.key, {_renamed('slot.value', old, new)})
                FROM jsonb_each(value) AS slot)
            WHERE name = 'retention.slots' AND value <> '{{}}';
    """


class Migration(migrations.Migration):

    dependencies = [('store', '0031_catalog_mark')]
    operations = [
        migrations.RunSQL(
            _statements('life', 'incarnation', many=('lives', 'incarnations')),
            _statements('incarnation', 'life', many=('incarnations', 'lives')),
        ),
    ]

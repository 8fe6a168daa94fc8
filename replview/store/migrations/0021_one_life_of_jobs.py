from django.db import migrations, models

_ATTEMPTS = models.IntegerField(db_default=0, default=0)
_REQUESTED_BY = models.TextField(blank=True, default='')
_MOMENT = models.DateTimeField(null=True)
_STATES = {
    'baseline': (10, 'requested', [
        ('requested', 'Waiting'), ('reading', 'Running'), ('done', 'Done'), ('failed', 'Failed'),
        ('cancelled', 'Cancelled')]),
    'slotpeek': (10, 'requested', [
        ('requested', 'Waiting'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed')]),
    'sourcedraft': (9, 'open', [
        ('open', 'Open'), ('asked', 'Waiting'), ('working', 'Running'), ('done', 'Done'),
        ('failed', 'Failed'), ('cancelled', 'Cancelled')]),
}


class Migration(migrations.Migration):

    dependencies = [('store', '0001_squashed_0020_archive_homes')]

    operations = [
        migrations.AddField('baseline', 'attempts', _ATTEMPTS),
        migrations.AddField('slotpeek', 'attempts', _ATTEMPTS),
        migrations.AddField('slotpeek', 'heartbeat_at', _MOMENT),
        migrations.AddField('sourcedraft', 'attempts', _ATTEMPTS),
        migrations.AddField('sourcedraft', 'finished_at', _MOMENT),
        migrations.AddField('sourcedraft', 'started_at', _MOMENT),
        *(migrations.AlterField(job, 'attempts', _ATTEMPTS)
          for job in ('erasure', 'export', 'historyjob')),
        *(migrations.AlterField(job, 'requested_by', _REQUESTED_BY)
          for job in ('erasure', 'export', 'historyjob', 'slotpeek')),
        *(migrations.AlterField(job, 'state', models.CharField(
            choices=choices, default=default, max_length=length))
          for job, (length, default, choices) in _STATES.items()),
    ]

"""Times in which tables were not published, and where in the WAL each look stood."""

import django.db.models.deletion
from django.db import migrations, models

import replview.store.fields

_LSN = replview.store.fields.LSNField(null=True)


class Migration(migrations.Migration):

    dependencies = [('store', '0029_limits_of_slots')]

    operations = [
        migrations.AddField('publicationlook', 'first_lsn', _LSN),
        migrations.AddField('publicationlook', 'last_lsn', _LSN.clone()),
        migrations.AddField('publicationlook', 'next_xid', models.BigIntegerField(null=True)),
        migrations.AddField(
            'publicationlook', 'incarnation', models.IntegerField(db_default=0, default=0)),
        migrations.AddField(
            'slot', 'lapse_text', models.TextField(blank=True, db_default='', default='')),
        migrations.AddField('slot', 'lapse_noted_at', models.DateTimeField(null=True)),
        migrations.CreateModel(
            name='PublicationLapse',
            fields=[
                ('id', models.BigAutoField(
                    auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('relation_oid', models.BigIntegerField()),
                ('schema', models.TextField()),
                ('table', models.TextField()),
                ('kind', models.TextField(choices=[
                    ('unpublished', 'Unpublished'), ('operations', 'Operations'),
                    ('filter', 'Filter'), ('partitions', 'Partitions'), ('altered', 'Altered'),
                ])),
                ('operations', models.TextField()),
                ('from_incarnation', models.IntegerField()),
                ('from_lsn', replview.store.fields.LSNField()),
                ('from_at', models.DateTimeField(null=True)),
                ('over_incarnation', models.IntegerField(null=True)),
                ('over_lsn', replview.store.fields.LSNField(null=True)),
                ('to_incarnation', models.IntegerField(null=True)),
                ('to_lsn', replview.store.fields.LSNField(null=True)),
                ('to_at', models.DateTimeField(null=True)),
                ('slot', models.ForeignKey(
                    on_delete=django.db.models.deletion.CASCADE, related_name='publication_lapses',
                    to='store.slot')),
            ],
            options={
                'db_table': 'publication_lapse',
                'indexes': [models.Index(
                    fields=['slot', 'relation_oid'], name='publication_lapse_of_table')],
            },
        ),
    ]

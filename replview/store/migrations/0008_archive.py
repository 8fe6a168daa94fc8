"""The archive: how far each life of a slot is in it."""

import django.db.models.deletion
from django.db import migrations, models

import replview.store.fields


class Migration(migrations.Migration):

    dependencies = [
        ('store', '0007_exports'),
    ]

    operations = [
        migrations.CreateModel(
            name='ArchiveMark',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('target', models.TextField()),
                ('through_seq', models.BigIntegerField(default=0)),
                ('through_lsn', replview.store.fields.LSNField(null=True)),
                ('through_time', models.DateTimeField(null=True)),
                ('since_seq', models.BigIntegerField(null=True)),
                ('since_lsn', replview.store.fields.LSNField(null=True)),
                ('since_time', models.DateTimeField(null=True)),
                ('transactions', models.BigIntegerField(default=0)),
                ('changes', models.BigIntegerField(default=0)),
                ('size_bytes', models.BigIntegerField(default=0)),
                ('moved_at', models.DateTimeField(null=True)),
                ('checked_at', models.DateTimeField(null=True)),
                ('problem', models.TextField(blank=True, default='')),
                ('remedy', models.TextField(blank=True, default='')),
                ('incarnation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='archive_marks', to='store.slotincarnation')),
            ],
            options={
                'db_table': 'archive_mark',
                'constraints': [models.UniqueConstraint(fields=('incarnation', 'target'), name='archive_mark_by_target')],
            },
        ),
        migrations.CreateModel(
            name='ArchivedRun',
            fields=[
                ('first_id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('last_id', models.BigIntegerField()),
                ('first_seq', models.BigIntegerField()),
                ('incarnation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='archived_runs', to='store.slotincarnation')),
            ],
            options={
                'db_table': 'archived_run',
            },
        ),
    ]

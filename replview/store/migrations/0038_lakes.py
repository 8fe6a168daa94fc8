"""Lakes, their tables and their runs."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

_ID = models.BigAutoField(
    auto_created=True, primary_key=True, serialize=False, verbose_name='ID')
_UNENDED = models.Q(('state', 'waiting'), ('state', 'running'), _connector='OR')


def _of_lake(name):
    return models.ForeignKey(
        on_delete=django.db.models.deletion.CASCADE, related_name=name, to='store.lake')


class Migration(migrations.Migration):

    dependencies = [('store', '0037_former_names_of_sources')]

    operations = [
        migrations.CreateModel(
            name='Lake',
            fields=[
                ('id', _ID),
                ('name', models.CharField(max_length=100, unique=True)),
                ('slot_name', models.TextField()),
                ('format', models.CharField(
                    choices=[('delta', 'Delta'), ('iceberg', 'Iceberg')], max_length=7)),
                ('root', models.TextField()),
                ('connector', models.TextField(blank=True, default='')),
                ('added_by', models.TextField(blank=True, default='')),
                ('added_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('slot', models.ForeignKey(
                    null=True, on_delete=django.db.models.deletion.SET_NULL,
                    related_name='lakes', to='store.slot')),
            ],
            options={'db_table': 'lake', 'ordering': ['name']},
        ),
        migrations.CreateModel(
            name='LakeRelation',
            fields=[
                ('id', _ID.clone()),
                ('name', models.TextField()),
                ('reached', models.JSONField(default=dict)),
                ('batches', models.IntegerField(default=0)),
                ('sizes', models.JSONField(null=True)),
                ('gaps', models.JSONField(default=list)),
                ('no_current', models.TextField(blank=True, default='')),
                ('reported_at', models.DateTimeField(null=True)),
                ('problem_cause', models.TextField(blank=True, default='')),
                ('problem_remedy', models.TextField(blank=True, default='')),
                ('lake', _of_lake('relations')),
            ],
            options={
                'db_table': 'lake_relation',
                'ordering': ['name'],
                'constraints': [models.UniqueConstraint(
                    fields=('lake', 'name'), name='lake_relation_by_name')],
            },
        ),
        migrations.CreateModel(
            name='LakeRun',
            fields=[
                ('id', _ID.clone()),
                ('requested_by', models.TextField(blank=True, default='')),
                ('requested_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('started_at', models.DateTimeField(null=True)),
                ('heartbeat_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('attempts', models.IntegerField(db_default=0, default=0)),
                ('problem_cause', models.TextField(blank=True, default='')),
                ('problem_remedy', models.TextField(blank=True, default='')),
                ('state', models.CharField(
                    choices=[('waiting', 'Waiting'), ('running', 'Running'), ('done', 'Done'),
                             ('failed', 'Failed'), ('cancelled', 'Cancelled')],
                    default='waiting', max_length=9)),
                ('anywhere', models.BooleanField(default=False)),
                ('words', models.JSONField(default=dict)),
                ('worker', models.TextField(blank=True, default='')),
                ('job_pid', models.IntegerField(null=True)),
                ('result', models.JSONField(null=True)),
                ('log_path', models.TextField(blank=True, default='')),
                ('action', models.CharField(
                    choices=[('run', 'Run'), ('maintain', 'Maintain')], max_length=8)),
                ('requested_how', models.CharField(
                    choices=[('page', 'Page'), ('command', 'Command')], max_length=8)),
                ('reading', models.TextField(blank=True, default='')),
                ('lake', _of_lake('runs')),
            ],
            options={
                'db_table': 'lake_run',
                'ordering': ['-id'],
                'indexes': [models.Index(
                    condition=_UNENDED, fields=['id'], name='lake_run_waiting')],
                'constraints': [models.UniqueConstraint(
                    condition=_UNENDED, fields=('lake',), name='lake_run_alone')],
            },
        ),
    ]

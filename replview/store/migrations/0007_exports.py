"""Exports: what was taken out of the record, by whom."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('store', '0006_checkpoints'),
    ]

    operations = [
        migrations.CreateModel(
            name='Export',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slot_name', models.TextField()),
                ('name', models.CharField(blank=True, default='', max_length=100)),
                ('slice', models.JSONField()),
                ('words', models.JSONField(default=dict)),
                ('target', models.TextField()),
                ('anywhere', models.BooleanField(default=False)),
                ('spark', models.TextField(blank=True, default='')),
                ('requested_by', models.TextField()),
                ('requested_how', models.CharField(choices=[('page', 'Page'), ('api', 'Api'), ('command', 'Command')], max_length=7)),
                ('requested_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='waiting', max_length=9)),
                ('started_at', models.DateTimeField(null=True)),
                ('heartbeat_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('attempts', models.IntegerField(default=0)),
                ('worker', models.TextField(blank=True, default='')),
                ('job_pid', models.IntegerField(null=True)),
                ('rows', models.BigIntegerField(null=True)),
                ('total_rows', models.BigIntegerField(null=True)),
                ('files', models.BigIntegerField(null=True)),
                ('size_bytes', models.BigIntegerField(null=True)),
                ('seconds_left', models.FloatField(null=True)),
                ('result', models.JSONField(null=True)),
                ('problem_cause', models.TextField(blank=True, default='')),
                ('problem_remedy', models.TextField(blank=True, default='')),
                ('log_path', models.TextField(blank=True, default='')),
                ('slot', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='exports', to='store.slot')),
            ],
            options={
                'db_table': 'export',
                'ordering': ['-id'],
                'indexes': [models.Index(condition=models.Q(('state__in', ['waiting', 'running'])), fields=['id'], name='export_waiting'), models.Index(fields=['name', '-id'], name='export_by_name')],
            },
        ),
    ]

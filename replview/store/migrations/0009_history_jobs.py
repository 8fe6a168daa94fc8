"""History jobs: what was computed over exported changes, by whom."""

import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('store', '0008_archive'),
    ]

    operations = [
        migrations.CreateModel(
            name='HistoryJob',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('job', models.CharField(max_length=40)),
                ('root', models.TextField()),
                ('anywhere', models.BooleanField(default=False)),
                ('words', models.JSONField(default=dict)),
                ('requested_by', models.TextField()),
                ('requested_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='waiting', max_length=9)),
                ('started_at', models.DateTimeField(null=True)),
                ('heartbeat_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('attempts', models.IntegerField(default=0)),
                ('worker', models.TextField(blank=True, default='')),
                ('job_pid', models.IntegerField(null=True)),
                ('output', models.TextField(blank=True, default='')),
                ('result', models.JSONField(null=True)),
                ('problem_cause', models.TextField(blank=True, default='')),
                ('problem_remedy', models.TextField(blank=True, default='')),
                ('log_path', models.TextField(blank=True, default='')),
            ],
            options={
                'db_table': 'history_job',
                'ordering': ['-id'],
                'indexes': [models.Index(condition=models.Q(('state__in', ['waiting', 'running'])), fields=['id'], name='history_job_waiting')],
            },
        ),
    ]

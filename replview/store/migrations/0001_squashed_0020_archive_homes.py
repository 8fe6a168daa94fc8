"""The store's tables, in one step: what twenty migrations made before anything was released.

A store that has all twenty goes on with this one as applied: Django reads it from ``replaces``. A
store that has only some of them is refused by ``replview migrate``, which says what to do.
"""

from pathlib import Path

import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
import replview.store.fields
from django.conf import settings
from django.db import migrations, models
from django.utils.text import camel_case_to_spaces


def make_roles(apps, schema_editor):
    """The three roles, and what each may see at first; who has an account becomes an operator."""
    Group = apps.get_model("auth", "Group")
    Grant = apps.get_model("store", "Grant")
    groups = {}
    for word in ("viewer", "operator", "admin"):
        groups[word], _ = Group.objects.get_or_create(name=word)
        if word != "admin":
            Grant.objects.get_or_create(group=groups[word], source=None, user=None)
    User = apps.get_model(*settings.AUTH_USER_MODEL.split("."))
    for user in User.objects.filter(is_superuser=False):
        user.groups.add(groups["operator"])


def _same(field, *names):
    """Several fields alike."""
    return [(name, field.clone()) for name in names]


#: What every sample of a slot has, of a moment, a minute or an hour.
_SAMPLED = [
    ('wal_status', models.TextField(null=True)),
    ('active', models.BooleanField(null=True)),
    *_same(replview.store.fields.LSNField(null=True), 'current_lsn', 'restart_lsn', 'confirmed_flush_lsn'),
    *_same(
        models.BigIntegerField(null=True), 'retained_wal_bytes', 'unconfirmed_wal_bytes',
        'safe_wal_bytes', 'transactions_stored', 'changes_stored', 'bytes_stored', 'spill_txns',
        'spill_bytes', 'stream_txns', 'stream_bytes', 'total_txns', 'total_bytes', 'batch_changes',
        'memory_bytes',
    ),
    *_same(
        models.FloatField(null=True), 'write_lag_seconds', 'flush_lag_seconds',
        'replay_lag_seconds', 'stored_after_p50_seconds', 'stored_after_p99_seconds',
    ),
]

#: Changes of rows, by what they did, and tables truncated.
_ROW_COUNTS = _same(models.BigIntegerField(default=0), 'inserts', 'updates', 'deletes', 'truncates')
_PROBLEM = _same(models.TextField(blank=True, default=''), 'problem_code', 'problem_cause', 'problem_remedy')


def _table(model, fields, **options):
    """A model's table, called as the model; an ``id`` comes first where no field is its key."""
    if not any(field.primary_key for _, field in fields):
        key = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')
        fields = [('id', key), *fields]
    return migrations.CreateModel(model, fields, {'db_table': camel_case_to_spaces(model).replace(' ', '_')} | options)


def _sql(name):
    """Return a script that makes what Django does not manage: partitions, the access record."""
    return Path(__file__).with_name(name).read_text()


class Migration(migrations.Migration):

    replaces = [('store', name) for name in (
        '0001_initial', '0002_partitioned', '0003_states', '0004_audit', '0005_health',
        '0006_checkpoints', '0007_exports', '0008_archive', '0009_history_jobs', '0010_rights',
        '0011_masks', '0012_access_record', '0013_erasures', '0014_keeping', '0015_sources',
        '0016_indexes_beside', '0017_managed_by', '0018_slot_intentions', '0019_months_beside',
        '0020_archive_homes',
    )]

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        _table('AccessRecord', [
            ('id', models.BigAutoField(primary_key=True, serialize=False)),
            ('at', models.DateTimeField()),
            ('action', models.TextField(choices=[('signed_in', 'signed in'), ('sign_in_failed', 'failed to sign in'), ('signed_out', 'signed out'), ('viewed_rows', 'viewed rows'), ('searched', 'searched'), ('copied_sql', 'copied SQL'), ('downloaded', 'downloaded'), ('exported', 'exported'), ('changed_settings', 'changed settings'), ('changed_source', 'changed a source'), ('changed_slot', 'changed a slot'), ('erased', 'erased'), ('viewed_access_record', 'viewed this record'), ('forgot_access_record', 'shortened this record'), ('applied_fleet', 'applied a fleet file')])),
            ('user_id', models.BigIntegerField(null=True)),
            ('user_name', models.TextField(blank=True, default='')),
            ('via', models.TextField(choices=[('page', 'page'), ('api', 'API'), ('socket', 'live'), ('command', 'command')])),
            *_same(models.TextField(blank=True, default=''), 'address', 'request_id', 'page', 'subject'),
            ('source_id', models.BigIntegerField(null=True)),
            ('source_name', models.TextField(blank=True, default='')),
            ('relation_ids', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), default=list, size=None)),
            ('tables', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None)),
            ('details', models.JSONField(default=dict)),
        ], ordering=['-at', '-id'], managed=False),
        _table('Change', [
            ('pk', models.CompositePrimaryKey('transaction_id', 'seq', blank=True, editable=False, primary_key=True, serialize=False)),
            ('transaction_id', models.BigIntegerField()),
            ('seq', models.IntegerField()),
            ('lsn', replview.store.fields.LSNField()),
            *_same(models.BigIntegerField(null=True), 'subxid', 'relation_id', 'version_id'),
            ('op', replview.store.fields.CharCodeField()),
            ('old_kind', replview.store.fields.CharCodeField(null=True)),
            *_same(models.JSONField(null=True), 'old', 'new'),
            *_same(models.BigIntegerField(null=True), 'key_hash', 'old_key_hash'),
        ], managed=False),
        _table('SlotSample', [
            ('slot_id', models.BigIntegerField()),
            ('sampled_at', models.DateTimeField()),
            *_SAMPLED,
            ('pk', models.CompositePrimaryKey('slot_id', 'sampled_at', blank=True, editable=False, primary_key=True, serialize=False)),
            ('detail', models.JSONField(default=dict)),
        ], managed=False),
        *(_table(model, [
            ('slot_id', models.BigIntegerField()),
            ('sampled_at', models.DateTimeField()),
            *_SAMPLED,
            ('pk', models.CompositePrimaryKey('slot_id', 'sampled_at', blank=True, editable=False, primary_key=True, serialize=False)),
            ('samples', models.IntegerField(default=1)),
        ], managed=False) for model in ('SlotSampleHour', 'SlotSampleMinute')),
        _table('SourceSample', [
            ('pk', models.CompositePrimaryKey('source_id', 'sampled_at', blank=True, editable=False, primary_key=True, serialize=False)),
            ('source_id', models.BigIntegerField()),
            ('sampled_at', models.DateTimeField()),
            ('reachable', models.BooleanField(default=True)),
            ('current_lsn', replview.store.fields.LSNField(null=True)),
            ('wal_directory_bytes', models.BigIntegerField(null=True)),
            ('prepared', models.IntegerField(null=True)),
            ('oldest_prepared_seconds', models.FloatField(null=True)),
            ('running', models.IntegerField(null=True)),
            *_same(models.FloatField(null=True), 'oldest_running_seconds', 'took_seconds'),
            ('checkpointed_at', models.DateTimeField(null=True)),
        ], managed=False),
        _table('ActivityMark', [
            ('incarnation_id', models.BigIntegerField(primary_key=True, serialize=False)),
            ('rolled_seq', models.BigIntegerField(default=0)),
        ]),
        _table('HistoryBlock', [
            ('pk', models.CompositePrimaryKey('incarnation_id', 'block', blank=True, editable=False, primary_key=True, serialize=False)),
            *_same(models.BigIntegerField(), 'incarnation_id', 'block'),
            *_same(models.DateTimeField(null=True), 'first_time', 'last_time'),
            *_same(replview.store.fields.LSNField(null=True), 'first_lsn', 'last_lsn'),
            ('transactions', models.BigIntegerField(default=0)),
            *_ROW_COUNTS,
            *_same(models.BigIntegerField(default=0), 'messages', 'size_bytes', 'max_changes', 'max_size_bytes'),
            ('states', models.JSONField(default=dict)),
        ]),
        _table('LargeValue', [
            ('pk', models.CompositePrimaryKey('transaction_id', 'seq', 'side', 'column', 'piece', blank=True, editable=False, primary_key=True, serialize=False)),
            ('transaction_id', models.BigIntegerField()),
            ('seq', models.IntegerField()),
            *_same(models.TextField(), 'side', 'column'),
            ('piece', models.IntegerField()),
            ('content', models.TextField()),
        ]),
        _table('MinuteMark', [
            ('incarnation_id', models.BigIntegerField(primary_key=True, serialize=False)),
            ('rolled_seq', models.BigIntegerField(default=0)),
        ]),
        _table('Relation', [
            ('system_identifier', models.TextField()),
            ('oid', models.BigIntegerField()),
            *_same(models.TextField(), 'schema', 'table'),
        ]),
        _table('SampleMark', [
            ('period', models.TextField(primary_key=True, serialize=False)),
            ('until', models.DateTimeField()),
        ]),
        _table('Setting', [
            ('name', models.CharField(max_length=60, primary_key=True, serialize=False)),
            ('value', models.JSONField()),
            ('changed_at', models.DateTimeField(default=django.utils.timezone.now)),
            ('changed_by', models.TextField(blank=True, default='')),
        ]),
        _table('SetupCode', [
            ('digest', models.CharField(max_length=64, unique=True)),
            ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ('expires_at', models.DateTimeField()),
            ('used_at', models.DateTimeField(null=True)),
        ]),
        _table('Slot', [
            ('name', models.CharField(max_length=63)),
            ('plugin', models.TextField(default='pgoutput')),
            ('interface', models.CharField(choices=[('walsender', 'Walsender'), ('sql', 'Sql')], default='walsender', max_length=9)),
            ('publications', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), default=list, size=None)),
            ('options', models.JSONField(blank=True, default=dict)),
            ('owned', models.BooleanField(default=True)),
            ('temporary', models.BooleanField(default=False)),
            ('wal_budget_bytes', models.BigIntegerField(null=True)),
            ('protect', models.CharField(choices=[('database', 'Database'), ('record', 'Record')], default='database', max_length=8)),
            ('heartbeat_seconds', models.IntegerField(null=True)),
            ('heartbeat_written_at', models.DateTimeField(null=True)),
            ('column_rules', models.JSONField(blank=True, default=dict)),
            ('keep_aborted', models.BooleanField(default=False)),
            ('keep_for_days', models.IntegerField(null=True)),
            ('keep_at_most_bytes', models.BigIntegerField(null=True)),
            ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ('desired', models.CharField(choices=[('running', 'Running'), ('stopped', 'Stopped'), ('removing', 'Removing')], default='running', max_length=12)),
            ('epoch', models.BigIntegerField(default=0)),
            ('lease_owner', models.TextField(blank=True, default='')),
            ('heartbeat_at', models.DateTimeField(null=True)),
            ('receiver_facts', models.JSONField(blank=True, default=dict)),
            ('state', models.CharField(choices=[('stopped', 'Stopped'), ('starting', 'Starting'), ('streaming', 'Streaming'), ('reconnecting', 'Reconnecting'), ('failed', 'Failed')], default='stopped', max_length=14)),
            ('state_since', models.DateTimeField(default=django.utils.timezone.now)),
            *_PROBLEM,
            *_same(models.DateTimeField(null=True), 'retry_at', 'connected_at'),
            ('published_tables', models.IntegerField(null=True)),
            *_same(replview.store.fields.LSNField(null=True), 'checkpoint_lsn', 'server_lsn'),
            *_same(models.BigIntegerField(default=0), 'transactions_stored', 'changes_stored', 'bytes_stored', 'outside_writes'),
            *_same(models.DateTimeField(null=True), 'last_commit_time', 'last_stored_at'),
        ], ordering=['source__name', 'name']),
        _table('Source', [
            ('name', models.CharField(max_length=63, unique=True)),
            ('conninfo', models.TextField()),
            *_same(models.TextField(blank=True, default=''), 'sealed_password', 'password_ref'),
            ('credentials_at', models.DateTimeField(null=True)),
            ('credentials_by', models.TextField(blank=True, default='')),
            ('managed_by', models.TextField(blank=True, db_default='', default='')),
            ('removing_at', models.DateTimeField(null=True)),
            ('ephemeral', models.BooleanField(default=False)),
            ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ('server_version', models.IntegerField(null=True)),
            ('system_identifier', models.TextField(null=True)),
            ('timeline', models.IntegerField(null=True)),
            ('encoding', models.TextField(null=True)),
            ('in_recovery', models.BooleanField(null=True)),
            ('max_slot_wal_keep_bytes', models.BigIntegerField(null=True)),
            ('checked_at', models.DateTimeField(null=True)),
            *_PROBLEM,
        ], ordering=['name']),
        _table('StoreMoment', [
            ('at', models.DateTimeField(primary_key=True, serialize=False)),
            ('size_bytes', models.BigIntegerField()),
            ('free_bytes', models.BigIntegerField(null=True)),
        ]),
        _table('TransactionSizeMinute', [
            ('pk', models.CompositePrimaryKey('incarnation_id', 'minute', 'power', blank=True, editable=False, primary_key=True, serialize=False)),
            ('incarnation_id', models.BigIntegerField()),
            ('minute', models.DateTimeField()),
            ('power', models.SmallIntegerField()),
            *_same(models.BigIntegerField(default=0), 'transactions', 'size_bytes'),
        ]),
        _table('Webhook', [
            ('name', models.CharField(max_length=100, unique=True)),
            ('sealed_url', models.TextField()),
            ('host', models.TextField(default='')),
            ('format', models.CharField(choices=[('json', 'Json'), ('slack', 'Slack')], default='json', max_length=5)),
            ('sealed_secret', models.TextField(blank=True, default='')),
            ('enabled', models.BooleanField(default=True)),
            ('allow_private', models.BooleanField(default=False)),
            ('severities', models.JSONField(blank=True, default=list)),
            ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ('created_by', models.TextField(blank=True, default='')),
        ], ordering=['name']),
        _table('AbortedSubtransaction', [
            ('pk', models.CompositePrimaryKey('transaction_id', 'subxid', blank=True, editable=False, primary_key=True, serialize=False)),
            *_same(models.BigIntegerField(), 'transaction_id', 'subxid'),
            ('abort_lsn', replview.store.fields.LSNField(null=True)),
            ('aborted_at', models.DateTimeField(null=True)),
            ('changes', models.BigIntegerField(null=True)),
            ('swept', models.BooleanField(default=False)),
        ], indexes=[models.Index(condition=models.Q(('swept', False)), fields=['transaction_id'], name='tombstone_unswept')]),
        _table('ActorActivity', [
            ('pk', models.CompositePrimaryKey('incarnation_id', 'actor', 'day', 'relation_id', 'grade', blank=True, editable=False, primary_key=True, serialize=False)),
            ('incarnation_id', models.BigIntegerField()),
            ('actor', models.TextField()),
            ('grade', models.TextField(default='')),
            ('day', models.DateField()),
            ('relation_id', models.BigIntegerField()),
            ('transactions', models.BigIntegerField(default=0)),
            *_ROW_COUNTS,
            ('messages', models.BigIntegerField(default=0)),
            *_same(models.DateTimeField(null=True), 'first_time', 'last_time'),
        ], indexes=[models.Index(fields=['incarnation_id', 'day'], name='actor_activity_by_day'), models.Index(fields=['relation_id', 'day'], name='actor_activity_by_table')]),
        _table('HistoryJob', [
            ('job', models.CharField(max_length=40)),
            ('root', models.TextField()),
            ('anywhere', models.BooleanField(default=False)),
            ('words', models.JSONField(default=dict)),
            ('requested_by', models.TextField()),
            ('requested_at', models.DateTimeField(default=django.utils.timezone.now)),
            ('state', models.CharField(choices=[('waiting', 'Waiting'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='waiting', max_length=9)),
            *_same(models.DateTimeField(null=True), 'started_at', 'heartbeat_at', 'finished_at'),
            ('attempts', models.IntegerField(default=0)),
            ('worker', models.TextField(blank=True, default='')),
            ('job_pid', models.IntegerField(null=True)),
            ('output', models.TextField(blank=True, default='')),
            ('result', models.JSONField(null=True)),
            *_same(models.TextField(blank=True, default=''), 'problem_cause', 'problem_remedy', 'log_path'),
        ], ordering=['-id'],
           indexes=[models.Index(condition=models.Q(('state__in', ['waiting', 'running'])), fields=['id'], name='history_job_waiting')]),
        _table('RelationActivity', [
            ('pk', models.CompositePrimaryKey('relation_id', 'incarnation_id', 'block', 'version_id', blank=True, editable=False, primary_key=True, serialize=False)),
            *_same(models.BigIntegerField(), 'relation_id', 'incarnation_id', 'block'),
            *_same(models.BigIntegerField(default=0), 'version_id', 'transactions'),
            *_ROW_COUNTS,
            ('snapshots', models.BigIntegerField(default=0)),
        ], indexes=[models.Index(fields=['incarnation_id', 'block'], name='activity_of_block')]),
        _table('RelationMinute', [
            ('pk', models.CompositePrimaryKey('incarnation_id', 'relation_id', 'minute', blank=True, editable=False, primary_key=True, serialize=False)),
            *_same(models.BigIntegerField(), 'incarnation_id', 'relation_id'),
            ('minute', models.DateTimeField()),
            *_same(models.BigIntegerField(default=0), 'transactions', 'changes', 'size_bytes'),
        ], indexes=[models.Index(fields=['incarnation_id', 'minute'], name='relation_minute_by_time')]),
        _table('RelationVersion', [
            ('number', models.IntegerField()),
            *_same(models.TextField(), 'digest', 'schema', 'table', 'replica_identity'),
            ('columns', models.JSONField()),
            ('key_columns', models.JSONField(default=list)),
            ('first_lsn', replview.store.fields.LSNField(null=True)),
            ('first_xid', models.BigIntegerField(null=True)),
            ('first_seen_at', models.DateTimeField(default=django.utils.timezone.now)),
            ('intervals', models.JSONField(default=list)),
            ('relation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='store.relation')),
        ], constraints=[models.UniqueConstraint(fields=('relation', 'digest'), name='version_by_digest'), models.UniqueConstraint(fields=('relation', 'number'), name='version_by_number')]),
        migrations.AddField('relation', 'current_version', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='store.relationversion')),
        _table('SavedFilter', [
            ('page', models.TextField()),
            ('name', models.CharField(max_length=100)),
            ('query', models.TextField()),
            ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='saved_filters', to=settings.AUTH_USER_MODEL)),
        ], ordering=['name'],
           constraints=[models.UniqueConstraint(fields=('user', 'page', 'name'), name='saved_filter_by_name')]),
        migrations.AddField('relation', 'slot', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='relations', to='store.slot')),
        _table('PublicationLook', [
            *_same(models.DateTimeField(), 'first_seen_at', 'last_seen_at'),
            ('digest', models.TextField()),
            ('facts', models.JSONField()),
            ('slot', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='publication_looks', to='store.slot')),
        ], indexes=[models.Index(fields=['slot', '-last_seen_at'], name='publication_look_latest')]),
        _table('Export', [
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
            *_same(models.DateTimeField(null=True), 'started_at', 'heartbeat_at', 'finished_at'),
            ('attempts', models.IntegerField(default=0)),
            ('worker', models.TextField(blank=True, default='')),
            ('job_pid', models.IntegerField(null=True)),
            *_same(models.BigIntegerField(null=True), 'rows', 'total_rows', 'files', 'size_bytes'),
            ('seconds_left', models.FloatField(null=True)),
            ('result', models.JSONField(null=True)),
            *_same(models.TextField(blank=True, default=''), 'problem_cause', 'problem_remedy', 'log_path'),
            ('slot', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='exports', to='store.slot')),
        ], ordering=['-id'],
           indexes=[models.Index(condition=models.Q(('state__in', ['waiting', 'running'])), fields=['id'], name='export_waiting'), models.Index(fields=['name', '-id'], name='export_by_name')]),
        _table('Erasure', [
            ('slot_name', models.TextField()),
            ('tables', models.JSONField(default=list)),
            ('keys', models.IntegerField(default=0)),
            *_same(models.JSONField(default=list), 'columns', 'digests'),
            ('names_actor', models.BooleanField(default=False)),
            ('reason', models.TextField(blank=True, default='')),
            ('requested_by', models.TextField()),
            ('requested_how', models.TextField(default='page')),
            ('requested_at', models.DateTimeField(default=django.utils.timezone.now)),
            ('confirmed_by', models.TextField(blank=True, default='')),
            ('confirmed_at', models.DateTimeField(null=True)),
            ('state', models.CharField(choices=[('looking', 'Looking'), ('looked', 'Looked'), ('waiting', 'Waiting'), ('running', 'Running'), ('unfinished', 'Unfinished'), ('done', 'Done'), ('dropped', 'Dropped')], default='looking', max_length=10)),
            *_same(models.DateTimeField(null=True), 'started_at', 'heartbeat_at', 'next_try_at', 'finished_at'),
            ('attempts', models.IntegerField(default=0)),
            *_same(models.TextField(blank=True, default=''), 'step', 'sealed_plan'),
            *_same(models.JSONField(default=dict), 'found', 'erased'),
            ('roots', models.JSONField(default=list)),
            *_same(models.TextField(blank=True, default=''), 'problem_cause', 'problem_remedy'),
            ('slot', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='erasures', to='store.slot')),
        ], ordering=['-id'],
           indexes=[models.Index(condition=models.Q(('state__in', ['looking', 'waiting', 'running', 'unfinished'])), fields=['id'], name='erasure_waiting')]),
        _table('SlotIncarnation', [
            ('number', models.IntegerField()),
            ('system_identifier', models.TextField()),
            ('timeline', models.IntegerField()),
            ('started_lsn', replview.store.fields.LSNField(null=True)),
            ('started_at', models.DateTimeField(default=django.utils.timezone.now)),
            ('reason', models.TextField()),
            ('commit_seq', models.BigIntegerField(default=0)),
            ('slot', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='incarnations', to='store.slot')),
        ], constraints=[models.UniqueConstraint(fields=('slot', 'number'), name='incarnation_by_number')]),
        _table('SlotEvent', [
            ('at', models.DateTimeField(default=django.utils.timezone.now)),
            *_same(models.TextField(), 'kind', 'message'),
            ('detail', models.JSONField(default=dict)),
            ('lsn', replview.store.fields.LSNField(null=True)),
            ('after_commit_seq', models.BigIntegerField(default=0)),
            ('slot', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='store.slot')),
            ('incarnation', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to='store.slotincarnation')),
        ], indexes=[models.Index(fields=['slot', 'at'], name='slot_event_by_time')]),
        migrations.AddField('slot', 'incarnation', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='store.slotincarnation')),
        _table('Quarantine', [
            ('found_at', models.DateTimeField(default=django.utils.timezone.now)),
            ('xid', models.BigIntegerField(null=True)),
            ('gid', models.TextField(null=True)),
            *_same(replview.store.fields.LSNField(null=True), 'final_lsn', 'lsn'),
            *_same(models.TextField(default=''), 'relation', 'tag'),
            ('raw', models.BinaryField()),
            ('raw_bytes', models.BigIntegerField()),
            *_same(models.TextField(), 'cause', 'remedy'),
            ('decision', models.CharField(blank=True, choices=[('', 'None'), ('retry', 'Retry'), ('skip', 'Skip')], default='', max_length=5)),
            ('decided_by', models.TextField(blank=True, default='')),
            *_same(models.DateTimeField(null=True), 'decided_at', 'settled_at'),
            ('slot', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='quarantined', to='store.slot')),
            ('incarnation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='store.slotincarnation')),
        ], indexes=[models.Index(condition=models.Q(('settled_at__isnull', True)), fields=['slot'], name='quarantine_unsettled')]),
        _table('KeptDay', [
            ('day', models.DateField()),
            *_same(models.BigIntegerField(default=0), 'transactions', 'changes', 'size_bytes'),
            *_same(models.BigIntegerField(null=True), 'store_bytes', 'first_seq', 'last_seq'),
            ('incarnation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='kept_days', to='store.slotincarnation')),
        ], indexes=[models.Index(fields=['day'], name='kept_day_by_day')],
           constraints=[models.UniqueConstraint(fields=('incarnation', 'day'), name='kept_day_once')]),
        _table('Baseline', [
            *_same(models.TextField(), 'schema', 'table'),
            ('state', models.CharField(choices=[('requested', 'Requested'), ('reading', 'Reading'), ('done', 'Done'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='requested', max_length=10)),
            ('requested_at', models.DateTimeField(default=django.utils.timezone.now)),
            ('requested_by', models.TextField(blank=True, default='')),
            ('rows_per_second', models.IntegerField(null=True)),
            *_same(models.DateTimeField(null=True), 'started_at', 'heartbeat_at', 'finished_at'),
            ('lsn', replview.store.fields.LSNField(null=True)),
            ('transaction_id', models.BigIntegerField(null=True)),
            ('rows', models.BigIntegerField(default=0)),
            ('estimated_rows', models.BigIntegerField(null=True)),
            *_PROBLEM,
            ('slot', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='baselines', to='store.slot')),
            ('incarnation', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to='store.slotincarnation')),
        ], indexes=[models.Index(condition=models.Q(('state__in', ['requested', 'reading'])), fields=['id'], name='baseline_waiting'), models.Index(fields=['slot', 'schema', 'table', '-id'], name='baseline_by_table')]),
        _table('ArchiveMark', [
            ('target', models.TextField()),
            ('home', models.TextField(blank=True, db_default='', default='')),
            ('through_seq', models.BigIntegerField(default=0)),
            ('through_lsn', replview.store.fields.LSNField(null=True)),
            ('through_time', models.DateTimeField(null=True)),
            ('since_seq', models.BigIntegerField(null=True)),
            ('since_lsn', replview.store.fields.LSNField(null=True)),
            ('since_time', models.DateTimeField(null=True)),
            *_same(models.BigIntegerField(default=0), 'transactions', 'changes', 'size_bytes'),
            *_same(models.DateTimeField(null=True), 'moved_at', 'checked_at'),
            *_same(models.TextField(blank=True, default=''), 'problem', 'remedy'),
            ('incarnation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='archive_marks', to='store.slotincarnation')),
        ], constraints=[models.UniqueConstraint(fields=('incarnation', 'target'), name='archive_mark_by_target')]),
        _table('ArchivedRun', [
            ('first_id', models.BigIntegerField(primary_key=True, serialize=False)),
            *_same(models.BigIntegerField(), 'last_id', 'first_seq'),
            ('incarnation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='archived_runs', to='store.slotincarnation')),
        ]),
        _table('SourceLook', [
            ('source', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='look', serialize=False, to='store.source')),
            ('looked_at', models.DateTimeField()),
            ('prepared', models.JSONField(null=True)),
            ('prepared_limit', models.IntegerField(null=True)),
            *_same(models.JSONField(null=True), 'running', 'holders'),
        ]),
        _table('SlotPeek', [
            ('slot_name', models.TextField()),
            ('options', models.JSONField(default=dict)),
            ('max_changes', models.IntegerField()),
            ('max_seconds', models.FloatField()),
            ('requested_at', models.DateTimeField(default=django.utils.timezone.now)),
            ('requested_by', models.TextField(default='')),
            ('state', models.CharField(choices=[('requested', 'Requested'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed')], default='requested', max_length=10)),
            *_same(models.DateTimeField(null=True), 'started_at', 'finished_at'),
            ('result', models.JSONField(null=True)),
            *_PROBLEM,
            ('source', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='peeks', to='store.source')),
        ], indexes=[models.Index(condition=models.Q(('state__in', ['requested', 'running'])), fields=['id'], name='slot_peek_waiting'), models.Index(fields=['source', 'slot_name', '-id'], name='slot_peek_by_slot')]),
        migrations.AddField('slot', 'source', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='slots', to='store.source')),
        _table('MaskRule', [
            *_same(models.TextField(default='*'), 'table_pattern', 'column_pattern'),
            ('type_pattern', models.TextField(blank=True, default='')),
            ('when', models.CharField(choices=[('ingest', 'Ingest'), ('display', 'Display')], default='ingest', max_length=7)),
            *_same(models.TextField(blank=True, default=''), 'note', 'created_by'),
            ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ('source', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='mask_rules', to='store.source')),
        ], ordering=['id']),
        _table('Grant', [
            ('tables', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), blank=True, default=list, size=None)),
            ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ('created_by', models.TextField(blank=True, default='')),
            ('group', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='grants', to='auth.group')),
            ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='grants', to=settings.AUTH_USER_MODEL)),
            ('source', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='grants', to='store.source')),
        ], db_table='rights_grant',
           ordering=['id'],
           constraints=[models.CheckConstraint(condition=models.Q(models.Q(('group__isnull', True), ('user__isnull', False)), models.Q(('group__isnull', False), ('user__isnull', True)), _connector='OR'), name='grant_to_one')]),
        _table('SourceDraft', [
            ('kind', models.CharField(choices=[('watch', 'Watch'), ('monitor', 'Monitor'), ('record', 'Record')], max_length=7)),
            ('state', models.CharField(choices=[('open', 'Open'), ('asked', 'Asked'), ('working', 'Working'), ('done', 'Done'), ('failed', 'Failed'), ('cancelled', 'Cancelled')], default='open', max_length=9)),
            *_same(models.TextField(blank=True, default=''), 'conninfo', 'sealed_password', 'password_ref'),
            ('answers', models.JSONField(blank=True, default=dict)),
            *_same(models.JSONField(blank=True, default=list), 'progress', 'undo'),
            ('stop_wanted', models.BooleanField(default=False)),
            *_PROBLEM,
            *_same(models.DateTimeField(default=django.utils.timezone.now), 'created_at', 'touched_at'),
            *_same(models.DateTimeField(null=True), 'asked_at', 'heartbeat_at', 'seen_at'),
            ('slot', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='store.slot')),
            ('source', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='store.source')),
            ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='source_drafts', to=settings.AUTH_USER_MODEL)),
        ], indexes=[models.Index(condition=models.Q(('state__in', ['asked', 'working'])), fields=['id'], name='source_draft_waiting')]),
        _table('SlotIntention', [
            ('source_name', models.TextField()),
            *_same(models.TextField(blank=True, default=''), 'conninfo', 'sealed_password', 'password_ref'),
            ('slot_name', models.TextField()),
            ('after_lsn', replview.store.fields.LSNField(null=True)),
            ('begun', models.JSONField(blank=True, default=list)),
            ('begun_at', models.DateTimeField(default=django.utils.timezone.now)),
            *_same(models.DateTimeField(null=True), 'seen_at', 'tried_at', 'swept_at'),
            ('source', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='store.source')),
            ('draft', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='store.sourcedraft')),
        ]),
        _table('Transaction', [
            ('id', models.BigIntegerField(primary_key=True, serialize=False)),
            *_same(models.BigIntegerField(null=True), 'commit_seq', 'xid'),
            ('gid', models.TextField(null=True)),
            ('state', models.TextField(choices=[('receiving', 'Receiving'), ('streaming', 'Streaming'), ('prepared', 'Prepared'), ('committed', 'Committed'), ('aborted', 'Aborted'), ('rolled back', 'Rolled Back'), ('message', 'Message'), ('skipped', 'Skipped'), ('unknown', 'Unknown'), ('snapshot', 'Snapshot'), ('copying', 'Copying'), ('discarded', 'Discarded')])),
            ('streamed', models.BooleanField(default=False)),
            *_same(replview.store.fields.LSNField(null=True), 'first_lsn', 'prepare_lsn', 'commit_lsn', 'end_lsn'),
            *_same(models.DateTimeField(null=True), 'commit_time', 'prepared_at', 'ended_at'),
            *_same(models.TextField(null=True), 'origin', 'actor', 'actor_grade'),
            ('context', models.JSONField(null=True)),
            *_ROW_COUNTS,
            *_same(models.BigIntegerField(default=0), 'messages', 'size_bytes'),
            ('relations', models.JSONField(default=dict)),
            ('aborted_changes', models.BigIntegerField(default=0)),
            ('received_at', models.DateTimeField()),
            ('stored_at', models.DateTimeField(null=True)),
            ('incarnation', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='store.slotincarnation')),
        ], indexes=[models.Index(condition=models.Q(('state__in', ['receiving', 'streaming', 'prepared', 'discarded'])), fields=['incarnation', 'state'], name='transaction_open'), models.Index(condition=models.Q(('gid__isnull', False)), fields=['gid'], name='transaction_gid'), models.Index(fields=['xid'], name='transaction_xid'), models.Index(condition=models.Q(('state__in', ['aborted', 'rolled back', 'unknown'])), fields=['incarnation', 'stored_at'], name='transaction_ended'), models.Index(condition=models.Q(('actor__isnull', False), ('commit_seq__isnull', False)), fields=['incarnation', 'actor', 'commit_seq'], name='transaction_by_actor'), models.Index(condition=models.Q(('commit_seq__isnull', False), ('origin__isnull', False)), fields=['incarnation', 'origin', 'commit_seq'], name='transaction_by_origin'), models.Index(condition=models.Q(('commit_seq__isnull', False), ('gid__isnull', False)), fields=['incarnation', 'commit_seq'], name='transaction_two_phase'), models.Index(condition=models.Q(models.Q(('streamed', True), ('gid__isnull', False), _connector='OR'), ('state__in', ['committed', 'aborted', 'rolled back', 'skipped', 'unknown'])), fields=['stored_at'], name='transaction_was_open')],
           constraints=[models.UniqueConstraint(condition=models.Q(('commit_seq__isnull', False)), fields=('incarnation', 'commit_seq'), name='transaction_in_order')]),
        _table('Transition', [
            ('transaction_id', models.BigIntegerField()),
            ('state', models.TextField()),
            ('lsn', replview.store.fields.LSNField(null=True)),
            ('source_time', models.DateTimeField(null=True)),
            ('recorded_at', models.DateTimeField()),
        ], indexes=[models.Index(fields=['transaction_id'], name='transition_by_transaction')]),
        _table('TypeName', [
            ('system_identifier', models.TextField()),
            ('oid', models.BigIntegerField()),
            *_same(models.TextField(), 'schema', 'name'),
            ('slot', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='type_names', to='store.slot')),
        ], constraints=[models.UniqueConstraint(fields=('slot', 'system_identifier', 'oid'), name='type_by_oid')]),
        _table('WatchedSlot', [
            ('id', models.BigIntegerField(primary_key=True, serialize=False)),
            ('name', models.TextField()),
            ('slot_type', models.TextField(default='logical')),
            *_same(models.TextField(null=True), 'plugin', 'database'),
            ('temporary', models.BooleanField(null=True)),
            *_same(models.DateTimeField(default=django.utils.timezone.now), 'first_seen_at', 'last_seen_at'),
            *_same(models.DateTimeField(null=True), 'gone_at', 'inactive_since'),
            ('facts', models.JSONField(default=dict)),
            ('slot', models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='watched', to='store.slot')),
            ('source', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='watched_slots', to='store.source')),
        ], ordering=['source_id', 'name'],
           constraints=[models.UniqueConstraint(fields=('source', 'name'), name='watched_slot_by_name')]),
        _table('AlertRule', [
            ('kind', models.CharField(max_length=20)),
            ('name', models.TextField()),
            ('severity', models.CharField(choices=[('now', 'Now'), ('look', 'Look')], default='look', max_length=4)),
            *_same(models.FloatField(null=True), 'threshold', 'clear_threshold'),
            *_same(models.FloatField(default=0), 'hold_seconds', 'clear_seconds'),
            ('enabled', models.BooleanField(default=True)),
            ('built_in', models.BooleanField(default=False)),
            ('key', models.CharField(blank=True, default='', max_length=40)),
            ('tables', models.JSONField(blank=True, default=list)),
            *_same(models.DateTimeField(default=django.utils.timezone.now), 'created_at', 'changed_at'),
            ('changed_by', models.TextField(blank=True, default='')),
            ('overrides', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to='store.alertrule')),
            ('slot', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to='store.watchedslot')),
        ], ordering=['id']),
        _table('Alert', [
            ('subject', models.TextField()),
            ('state', models.CharField(choices=[('pending', 'Pending'), ('firing', 'Firing'), ('cleared', 'Cleared')], default='pending', max_length=8)),
            ('began_at', models.DateTimeField()),
            *_same(models.DateTimeField(null=True), 'fired_at', 'over_since', 'cleared_at'),
            ('message', models.TextField(default='')),
            *_same(models.FloatField(null=True), 'value_fired', 'value_worst', 'value_last'),
            *_same(models.JSONField(default=dict), 'rule_was', 'detail'),
            ('seen_at', models.DateTimeField(null=True)),
            ('seen_by', models.TextField(blank=True, default='')),
            ('rule', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='alerts', to='store.alertrule')),
            ('source', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to='store.source')),
            ('slot', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to='store.watchedslot')),
        ], indexes=[models.Index(fields=['-fired_at'], name='alert_by_time'), models.Index(fields=['-cleared_at'], name='alert_by_end'), models.Index(condition=models.Q(('state__in', ['pending', 'firing'])), fields=['state'], name='alert_open')],
           constraints=[models.UniqueConstraint(condition=models.Q(('state__in', ['pending', 'firing'])), fields=('rule', 'subject'), name='alert_once_open')]),
        _table('WatchedSubscription', [
            ('name', models.TextField()),
            *_same(models.DateTimeField(default=django.utils.timezone.now), 'first_seen_at', 'last_seen_at'),
            ('gone_at', models.DateTimeField(null=True)),
            ('facts', models.JSONField(default=dict)),
            ('source', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='subscriptions', to='store.source')),
        ], constraints=[models.UniqueConstraint(fields=('source', 'name'), name='watched_subscription_by_name')]),
        _table('Delivery', [
            ('event', models.TextField()),
            ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ('attempts', models.IntegerField(default=0)),
            ('next_try_at', models.DateTimeField(default=django.utils.timezone.now, null=True)),
            *_same(models.DateTimeField(null=True), 'delivered_at', 'given_up_at'),
            ('problem', models.TextField(blank=True, default='')),
            ('status', models.IntegerField(null=True)),
            ('alert', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to='store.alert')),
            ('webhook', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='store.webhook')),
        ], indexes=[models.Index(condition=models.Q(('delivered_at', None), ('given_up_at', None)), fields=['next_try_at'], name='delivery_waiting')]),
        _table('ApiToken', [
            ('name', models.CharField(max_length=100)),
            ('digest', models.CharField(max_length=64, unique=True)),
            ('hint', models.CharField(max_length=12)),
            ('scope', models.CharField(choices=[('metrics', 'Metrics'), ('read', 'Read'), ('export', 'Export'), ('operate', 'Operate')], db_default='read', default='read', max_length=7)),
            ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            *_same(models.DateTimeField(null=True), 'last_used_at', 'expires_at', 'revoked_at'),
            ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_tokens', to=settings.AUTH_USER_MODEL)),
        ], constraints=[models.UniqueConstraint(fields=('user', 'name'), name='api_token_by_name')]),
        _table('Identity', [
            *_same(models.TextField(), 'issuer', 'subject'),
            ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='identities', to=settings.AUTH_USER_MODEL)),
        ], constraints=[models.UniqueConstraint(fields=('issuer', 'subject'), name='identity_by_subject')]),
        migrations.AddConstraint('relation', models.UniqueConstraint(fields=('slot', 'system_identifier', 'oid'), name='relation_by_oid')),
        migrations.AddConstraint('slot', models.UniqueConstraint(fields=('source', 'name'), name='slot_by_name')),
        migrations.RunSQL(_sql('change.sql'), "DROP TABLE change; DROP SEQUENCE transaction_id_block;"),
        migrations.RunSQL(_sql('samples.sql'), "DROP TABLE slot_sample, slot_sample_minute, slot_sample_hour, source_sample;"),
        migrations.RunPython(make_roles, migrations.RunPython.noop, elidable=False),
        migrations.RunSQL(_sql('access_record.sql'), """
            DROP FUNCTION access_record_add(text, bigint, text, text, text, text, text, text, bigint,
                                            bigint[], text[], jsonb);
            DROP TABLE access_record;
            DROP FUNCTION access_record_make_month(timestamptz);
            DROP FUNCTION access_record_refuse();
        """),
    ]

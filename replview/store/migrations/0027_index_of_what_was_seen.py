"""An index of the transactions whose identifiers do not follow their commits."""

from django.db import migrations, models

from replview.store.migrations import index_beside

_INDEX = models.Index(
    fields=['incarnation', 'commit_lsn'], include=['id'], name='transaction_was_seen',
    condition=models.Q(models.Q(streamed=True) | models.Q(gid__isnull=False),
                       commit_seq__isnull=False))


class Migration(migrations.Migration):

    atomic = False
    dependencies = [('store', '0026_hours_of_commits')]
    operations = [index_beside(_INDEX)]

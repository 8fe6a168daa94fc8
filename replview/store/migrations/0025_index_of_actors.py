"""An index of what names several actors."""

from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import migrations, models

from replview.store.migrations import index_beside

_INDEX = GinIndex(OpClass('actors', 'jsonb_path_ops'), name='transaction_by_actors',
                  condition=models.Q(actors__isnull=False))


class Migration(migrations.Migration):

    atomic = False
    dependencies = [('store', '0024_actors_of_changes')]
    operations = [index_beside(_INDEX)]

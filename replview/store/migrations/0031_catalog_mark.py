"""The catalog's fingerprint of each source, by which receivers notice that tables were altered."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('store', '0030_publication_lapses')]
    operations = [
        migrations.AddField(
            'source', 'catalog_mark', models.TextField(blank=True, db_default='', default='')
        ),
    ]

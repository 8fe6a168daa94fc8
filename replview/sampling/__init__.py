"""Regular samples of the sources, and regular tidying of the store, by Celery beat."""

"""The receivers' Celery tasks."""

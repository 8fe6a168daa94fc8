"""Celery tasks that run the receivers."""

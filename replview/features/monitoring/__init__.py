"""Metrics and probes for Prometheus and process managers."""

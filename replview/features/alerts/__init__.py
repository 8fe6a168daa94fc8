"""Alerts: rules, their evaluation, and the delivery of what fired."""

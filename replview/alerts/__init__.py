"""Alerts: rules over what the store knows, the course they take, and who is told."""

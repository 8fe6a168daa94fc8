"""Onboarding adds a source in the browser, step by step."""

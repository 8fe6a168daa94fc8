"""Sampling reads the state of every source at a regular interval and stores it."""

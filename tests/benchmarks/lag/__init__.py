"""Sampling, lag pages, alerts: what they cost, and whether they keep up."""

"""This package runs requested background jobs: exports, history, baselines, erasures, peeks."""

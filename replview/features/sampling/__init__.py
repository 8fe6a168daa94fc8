"""Sampling: every source read at a regular interval, its state stored."""

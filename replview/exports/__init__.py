"""Asking for exports: what may be asked for, and what words mean; the same for every door."""

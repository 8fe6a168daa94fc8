"""The overview shows all sources, worst first."""

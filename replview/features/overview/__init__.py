"""The overview: all sources, worst first."""

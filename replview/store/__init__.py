"""The store: what was received, as Django models, written by bulk COPY."""

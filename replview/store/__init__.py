"""The store holds what was received, as Django models; receivers write it by bulk COPY."""

"""Hypothesis, for the decoder's tests: no deadline, for a busy machine is no failure."""

from hypothesis import settings

settings.register_profile("decoder", deadline=None)
settings.load_profile("decoder")

"""Tests of what is installed on other machines: the wheel, the image, the units, back-ups."""

"""This package decodes Insert, Update and Delete inline, for speed."""

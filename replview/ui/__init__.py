"""This package holds what all pages share: the shell, components, formats and parameters."""

"""This package holds what all parts of the JSON API share: access, errors, coverage, filters."""

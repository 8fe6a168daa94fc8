"""The component gallery."""

"""This package decides who may see and do what, and records who did."""

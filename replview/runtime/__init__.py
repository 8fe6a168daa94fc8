"""This package runs the processes of one instance, for ``up``, ``watch``, demo and tests."""

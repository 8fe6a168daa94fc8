"""The processes of one instance, for ``up``, ``watch``, the demo and the tests."""

"""Views, a module a noun."""

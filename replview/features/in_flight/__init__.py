"""Transactions in progress and prepared transactions."""

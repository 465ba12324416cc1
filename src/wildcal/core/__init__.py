"""Contracts, array operations, input validation and optimization shared by all methods."""

"""Suites and weights for wildcal, as files beside this one."""

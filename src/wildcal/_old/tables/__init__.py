"""One model of a table, one formatter of numbers, and a renderer for each place it is read."""

from wildcal._old.tables.model import ABSENT, BEST, SECOND, Cell, Column, Table, number, ranked

__all__ = ["ABSENT", "BEST", "SECOND", "Cell", "Column", "Table", "number", "ranked"]

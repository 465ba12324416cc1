"""Files in and out: logits, labels, probabilities and fitted calibrators. No pickle, ever."""

from wildcal.io.artifact import load, save
from wildcal.io.tables import Table, read_labels, read_table, write_result

__all__ = ["Table", "load", "read_labels", "read_table", "save", "write_result"]

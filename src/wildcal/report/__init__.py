"""The report page, and the tables and figures of the energy paper."""

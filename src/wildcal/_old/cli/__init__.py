"""The `wildcal` command: reads files, calls the library, prints what it returned."""

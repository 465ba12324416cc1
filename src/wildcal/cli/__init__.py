"""The command line: every command reads, calls the library and prints."""

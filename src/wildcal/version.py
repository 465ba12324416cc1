"""The version of the package, read by the build and written into saved calibrators."""

__version__ = "0.2.0"

"""Modules that are replaced step by step; not part of the public interface."""

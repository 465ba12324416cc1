"""Calibrated confidence inside other frameworks: one module per framework, each an extra."""

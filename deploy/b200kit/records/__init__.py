"""Measured runs: conditions, store, comparison with the baseline, diagnosis."""

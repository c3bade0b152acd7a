"""Axes and the five charts of the report."""

"""The report as text of 100 columns."""

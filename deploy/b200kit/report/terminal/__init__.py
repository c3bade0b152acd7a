"""The report as text, as wide as the terminal."""

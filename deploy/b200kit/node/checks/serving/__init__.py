"""Checks of what serves: weights, placement, watchdog, bandwidth."""

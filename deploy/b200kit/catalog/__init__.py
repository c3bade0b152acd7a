"""Data: hardware, models, engines and settings, each value with its source."""

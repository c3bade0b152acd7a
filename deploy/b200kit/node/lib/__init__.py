"""Readings, atomic files, locks, hard timeouts, redaction, sd_notify: no subject of their own."""

"""Acceptance on a node: tests under load as data, run one by one, sealed in one folder."""

"""Checks of the host: driver, packages, services, settings, clock, storage, NUMA."""

"""The watchdog of running replicas: daemon, probe, effects, evidence of a hang."""

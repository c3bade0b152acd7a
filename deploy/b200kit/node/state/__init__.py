"""The documents: NodeState, expectation, verdict, drift, quarantine, watchdog state."""

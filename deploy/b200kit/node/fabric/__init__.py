"""The NVLink fabric sequence: its states as data, and the command that waits and helps."""

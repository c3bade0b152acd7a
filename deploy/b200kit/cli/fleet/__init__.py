"""Sub-commands that look at a fleet while it serves."""

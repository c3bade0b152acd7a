"""The desired-state engine: what a stage is, what a change is, handlers, apt and dpkg."""

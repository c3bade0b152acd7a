"""The gateway's configuration, and its lint."""

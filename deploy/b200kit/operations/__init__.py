"""The pyinfra operations, and what happens before the first connection and after the last."""

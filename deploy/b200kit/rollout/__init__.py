"""A change of a fleet that serves: in waves, each node a transaction of its own."""

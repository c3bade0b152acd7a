"""A node that measures latency and answers again by itself, while nobody asks it anything."""

"""The network between nodes: its facts, its traffic, and who is to blame for what is slow."""

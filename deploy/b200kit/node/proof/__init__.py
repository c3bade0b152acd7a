"""What a node has proven of itself, until when, and its signature under that."""

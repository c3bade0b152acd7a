"""What a node says of itself to others, by processes without rights that read the agent's file."""

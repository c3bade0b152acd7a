"""Hash-locked requirements of engines: how they are made, and what they must hold."""

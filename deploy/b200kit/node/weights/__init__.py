"""Model files on the node: fetched, proven, shared with peers."""

"""The desired state of a site: NodeSpec, the rules between its keys, secrets, resolved goals."""

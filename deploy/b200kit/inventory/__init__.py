"""What a site asks for: NodeSpec, the rules between its keys, secrets, and the goals resolved."""

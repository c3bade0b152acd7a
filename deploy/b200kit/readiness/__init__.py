"""Whether a node can be provisioned, decided before its first change: expectations and checks."""

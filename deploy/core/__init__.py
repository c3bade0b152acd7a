"""Pure decisions in the standard library alone: the same code runs on the controller and a node."""

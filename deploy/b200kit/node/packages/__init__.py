"""apt and dpkg on the node: is it ready, what is offered, why did it fail."""

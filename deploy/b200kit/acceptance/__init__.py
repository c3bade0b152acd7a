"""Whether hardware is good: acceptance runs of nodes, and the network between them."""

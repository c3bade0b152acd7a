"""What runs beside the engine on the node: compile cache, free GPUs, group peers."""

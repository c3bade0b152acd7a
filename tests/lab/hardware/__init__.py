"""A simulated node's hardware: scenarios, what NVML says for them, the C library."""

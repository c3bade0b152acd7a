"""What runs on the node: standard library and pynvml only, shipped as one zipapp."""

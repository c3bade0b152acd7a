"""The node's HAProxy: its socket, rotation, drain and rolling restart."""

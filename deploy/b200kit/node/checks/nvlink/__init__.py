"""Checks of NVLink: links, link errors, fabric, fabric manager, P2P."""

"""Checks of PCIe: links, bridges, NICs."""

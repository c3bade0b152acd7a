"""Quarantine, the support bundle, the GPU reset recipe."""

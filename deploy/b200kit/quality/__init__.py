"""Whether a model served in fewer bits still answers like the one that was published."""

"""The keys of the inventory, one module a mapping, and the parsers of their values."""

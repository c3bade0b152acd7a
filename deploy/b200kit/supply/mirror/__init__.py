"""A site's mirror: computed from an inventory, fetched, signed, proven, carried and updated."""

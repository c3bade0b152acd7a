"""Models for a site: pinned by a manifest, checked against their config.json, published."""

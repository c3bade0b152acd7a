"""Commands for a site's own monitoring."""

"""Commands that bring a site what its nodes need."""

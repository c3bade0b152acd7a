"""Models known by name, one YAML file each."""

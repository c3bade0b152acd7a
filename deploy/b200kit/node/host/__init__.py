"""Acts on the operating system: ACS off, the firewall trial, CDI in docker, settings."""

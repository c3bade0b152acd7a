"""What nodes are supplied with: repositories, packages, wheels, models, engines."""

"""What the node knows of itself, in Prometheus' text format."""

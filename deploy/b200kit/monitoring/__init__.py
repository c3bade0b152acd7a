"""What a site's own Prometheus, Alertmanager and Grafana are given."""

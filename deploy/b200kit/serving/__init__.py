"""The controller's side of serving: engine, replicas, units, peers."""

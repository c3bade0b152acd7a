"""Events of a node on their way to the site: spool, sinks, delivery."""

"""What each engine is given by goal and model, one YAML file an engine; and context lengths."""

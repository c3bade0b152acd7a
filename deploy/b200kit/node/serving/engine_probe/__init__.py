"""Whether the sandbox of a replica has what its engine needs, before a model is loaded."""

"""One run and its nodes: the record, the remote end, rendering, host keys."""

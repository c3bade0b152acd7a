"""The smoke test on the node: load runs, GPU samples, vllm bench serve."""

"""NVML through pynvml, in a child process that may hang."""

"""The warm-up hook of a replica's unit: request shapes and rounds."""

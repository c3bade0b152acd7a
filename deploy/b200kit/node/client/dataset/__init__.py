"""What is asked in a measurement: random words, texts or a site's own prompts, and their order."""

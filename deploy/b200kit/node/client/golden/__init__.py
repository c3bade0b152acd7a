"""Answers that are read: golden prompts, what replicas say to them, and how that compares."""

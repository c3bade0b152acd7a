"""A model's config to bytes: does it fit, and how many replicas serve it best?"""

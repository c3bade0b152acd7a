"""A site's first inventory: looked at, decided, written with its reasons, and proposed again."""

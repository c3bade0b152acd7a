"""What is read on a node: one reader a subject, and `observe`, which calls all of them."""

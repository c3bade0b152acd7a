"""The charts of the report, and the one mechanism that draws them."""

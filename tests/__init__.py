"""Everything that proves the toolkit: unit tests, the lab, scenarios, recorded states."""

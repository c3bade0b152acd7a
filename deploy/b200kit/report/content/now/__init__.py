"""The fleet as it stands now: what nodes answered, folded into what a person should know."""

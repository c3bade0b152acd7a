"""What of the internet a lab plays: the Hub."""

"""What a report says, whatever the medium."""

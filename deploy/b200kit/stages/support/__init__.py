"""What single stages need: driver package set, RAID plan, managed settings."""

"""What can be asked about runs and done to them, by applications and clients alike."""

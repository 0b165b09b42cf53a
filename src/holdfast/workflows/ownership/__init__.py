"""Who runs what: beats, the release of what the gone have left, and claims of what waits."""

"""Flow checkpoints: snapshots of a flow of many nodes that survive a crash, and the waits of its nodes."""

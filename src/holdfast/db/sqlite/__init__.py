"""SQLite: its connections, the threads they live on, its file and its log."""

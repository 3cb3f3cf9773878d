//! What only SQLite has: files, processes that share one, and disks.

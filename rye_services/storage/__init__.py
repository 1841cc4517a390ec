"""The database of a node with its tables and their versions, and object storage."""

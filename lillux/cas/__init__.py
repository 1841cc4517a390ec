"""A content-addressed store in a folder: what is stored is named by its SHA-256, written once."""

"""What an item is: its reference, its header by file type, its text, and the errors about it."""

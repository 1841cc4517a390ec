"""Items: their references, headers by file type, texts, and the errors about them."""

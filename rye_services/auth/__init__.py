"""Who sends a request: headers become a `Principal` here, and nothing below sees a header."""

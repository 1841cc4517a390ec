"""What agents get: the six tools as they are described and as they answer. No protocol here."""

"""Who may be believed: signatures, keys, spaces, bundles and configuration."""

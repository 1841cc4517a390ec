"""What is trusted: signatures, keys, bundles, configuration."""

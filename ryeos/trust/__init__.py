"""Trust: signatures, keys, bundles, configuration."""

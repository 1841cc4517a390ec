"""The registry: published items and bundles."""

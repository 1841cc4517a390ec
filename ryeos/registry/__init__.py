"""The client of registries: items and bundles published, pulled, verified, installed."""

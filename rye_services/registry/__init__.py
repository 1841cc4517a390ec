"""The registry: items and bundles that accounts publish, and anybody may search and pull."""

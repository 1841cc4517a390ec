"""Background runs: their values, their registry, and what starts and ends them."""

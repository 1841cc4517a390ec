"""Layer 1: what the operating system offers, safely. Knows nothing of Rye."""

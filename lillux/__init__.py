"""Layer 1: what the operating system offers, safely. Does not depend on Rye."""

"""HTTP of the node and the registry: limits, answers, pages, texts, sign-in."""

"""Pages of a node: what they show, their routes, and the sessions of the people who see them."""

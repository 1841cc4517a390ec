"""State graphs: many steps, each recorded before the next begins."""

"""People of a node and what they may do: teams, keys, callers, the audit."""

"""Executions: let in, carried out from the head of a project, folded back into it."""

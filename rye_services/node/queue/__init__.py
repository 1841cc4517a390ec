"""Executions that wait and run: rows, turns, logs, and the queue of many machines."""

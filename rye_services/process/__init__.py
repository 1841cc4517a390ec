"""The process that serves: its data folder, keys, socket, health and figures."""

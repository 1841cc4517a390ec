"""Graphs in a workspace: what their nodes call, where runs are kept, who started them."""

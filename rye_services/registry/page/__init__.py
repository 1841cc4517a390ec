"""The pages of a registry: browse, search, read. Nobody logs in, and nothing can be changed."""

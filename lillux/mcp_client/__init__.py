"""A client of the Model Context Protocol: calls one tool of one server, in either era.

`session` is the protocol without input and output, `stdio` and `http` are its transports.
"""

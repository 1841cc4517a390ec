"""The status page of a node: plain HTML made on the server, one style sheet, one small script."""

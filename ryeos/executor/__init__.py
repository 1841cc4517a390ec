"""From an item id to a result: chain, rules, environment, invocation, primitive."""

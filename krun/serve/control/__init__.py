"""The reconcilers: from the objects that are wanted to instances, routes, conditions."""

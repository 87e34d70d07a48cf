"""The objects: kinds, schema, names, defaults, validation, conditions, conversion. Pure functions, no state."""

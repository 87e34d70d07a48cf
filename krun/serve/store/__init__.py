"""The embedded store: objects, versions, watches, owners, in one SQLite file."""

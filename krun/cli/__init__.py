"""The command line: one table and two parsers of it (cli.fast for engines, cli.app with click for people)."""

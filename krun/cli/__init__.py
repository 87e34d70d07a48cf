"""The command line: one table, two readers (fast for engines, click for people)."""

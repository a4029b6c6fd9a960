"""Options: their table, which is generated, and how given values become a configuration."""

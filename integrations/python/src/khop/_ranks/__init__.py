"""Several ranks: how they find one another on a machine, and that they ask for one epoch."""

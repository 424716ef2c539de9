"""From Python arguments to the driver call: arguments, grids, plans, scratch, results."""

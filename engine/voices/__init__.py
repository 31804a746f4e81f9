"""Eight small adapters trained for the demo base, with the data and the recipe that made each."""

"""A study on a cluster: schedule, driver, workers, and the simulation of all three."""

"""A training script of somebody else, measured as it is. Scripts use `report` of this package."""

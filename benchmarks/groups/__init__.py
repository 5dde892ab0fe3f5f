"""Coverage and width of the bound by group, for each calibration and for other packages."""

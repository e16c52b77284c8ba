"""Shows the results of studies and measurements: as tables, as an HTML page and as timelines."""

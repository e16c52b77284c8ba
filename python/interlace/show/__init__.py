"""The output of studies and measurements for people: tables, the HTML page and timelines."""

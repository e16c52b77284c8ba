"""The output of studies and measurements for people: tables, the page, timelines."""

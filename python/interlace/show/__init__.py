"""What studies and measurements give, for people: tables, the page, timelines."""

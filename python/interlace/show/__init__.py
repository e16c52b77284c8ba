"""Tables, pages and timelines."""

"""`interlace reproduce`: compares a paper's published figures with Interlace's figures."""

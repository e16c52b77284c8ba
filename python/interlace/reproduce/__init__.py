"""The published figures of a paper beside simulated and measured ones: `interlace reproduce`."""

"""The published figures of a paper beside simulated and measured figures: `interlace reproduce`."""

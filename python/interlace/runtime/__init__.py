"""Modules that programs import (regions, copies, checkpoints), and the code of `interlace run`."""

"""Modules that programs import (regions, copies, checkpoints), and programs that run unchanged."""

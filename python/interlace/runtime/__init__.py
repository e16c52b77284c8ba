"""What programs import: regions, copies, checkpoints; and programs that are run as they are."""

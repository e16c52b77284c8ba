"""Studies, sweeps, calibration and measurements."""

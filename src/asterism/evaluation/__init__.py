"""Measures of a model: functions of arrays and engines, the same for every model."""

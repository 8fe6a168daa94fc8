"""The lag page: charts over one time axis."""

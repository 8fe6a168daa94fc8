"""The lag page: charts with a common time axis."""

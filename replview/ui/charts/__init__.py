"""Values to plotly figures, one module a chart: pure, without the store and without HTML."""

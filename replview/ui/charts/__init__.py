"""This package turns values into plotly figures, without the store and without HTML."""

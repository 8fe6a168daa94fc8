"""Values to plotly figures, one file a chart: pure, without the store and without Django.

A figure is plotly's own JSON (``{"data", "layout"}``), as dictionaries: building graph objects for
a thousand points takes longer than reading them. Tests hold every figure against plotly's schema.
Colours are not in it: each trace names its ink in ``meta``, and the page takes the ink of its theme
from the style sheet, so that one figure is drawn in light and dark.
"""

"""Find searches changes by the values that they wrote."""

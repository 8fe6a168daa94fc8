"""Alert rules: kinds, amounts, trials."""

"""Changes as every page shows them."""

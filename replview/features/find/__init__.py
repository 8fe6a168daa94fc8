"""Find: changes by what they did to which values."""

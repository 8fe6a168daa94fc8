"""What all pages share: the shell, components, formats, parameters of an address."""

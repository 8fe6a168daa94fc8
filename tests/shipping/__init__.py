"""What is handed to somebody else's machine: the wheel, the image, the units, back-ups."""

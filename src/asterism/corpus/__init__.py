"""Text, files and matrices in; counts and a vocabulary out."""

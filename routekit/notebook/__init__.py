"""The IPython extension: magics, display, pictures, completion. Nothing runs at import."""

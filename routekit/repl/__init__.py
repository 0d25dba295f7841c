"""The conversation at a terminal, `routekit chat`. It asks through a `Session`; the shell lends it
its streams."""

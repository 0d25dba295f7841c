"""The config file: found, read, overlaid, judged, shown and edited. It fetches no secret and talks to no vendor."""

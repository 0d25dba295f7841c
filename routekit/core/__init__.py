"""The deciding core: values and pure functions over them. It never reads a clock, a file, the environment or chance."""

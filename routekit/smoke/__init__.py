"""Proofs that an installation works and that a profile answers: ``drills`` and ``deployed``. It prints nothing."""

"""What a terminal can show, and how an answer is shown on one: for shell and REPL. It decides nothing."""

"""Archives forged at random, loaded and scored: none may break the process that reads it."""

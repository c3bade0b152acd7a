"""The OpenAI client that stamps every chunk, and the formulas over those stamps."""

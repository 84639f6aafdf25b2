"""Files for people: text with stretches of code in it."""

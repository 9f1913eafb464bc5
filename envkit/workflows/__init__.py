"""One function for each thing a user asks for; the only layer that joins the workers."""

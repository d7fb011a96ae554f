"""What the rules share for reading an answer the way a careful person does."""

"""The reading of answers, which the rules share and which imitates a careful person."""

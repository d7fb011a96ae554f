"""The reading of answers that the rules share: it stands in for a careful person."""

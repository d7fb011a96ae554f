"""Two or more runs beside each other: paired tests, flips, ranks and gates."""

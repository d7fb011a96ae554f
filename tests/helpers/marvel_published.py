"""Data of MARVEL that its authors published."""

PATTERNS = ("Temporal Movement", "Spatial Relationship", "Quantities", "Mathematical", "2D-Geometry", "3D-Geometry")
CONFIGURATIONS = ("Sequence", "Two-row", "Matrix", "Group")
ALWAYS = {
    1: (24.81, 25.71, 26.67, 24.17, 27.88, 20.83, 15.00, 23.03, 24.89, 28.89, 21.48),
    2: (24.03, 24.76, 24.17, 27.50, 18.18, 23.33, 30.00, 26.06, 21.33, 20.89, 30.37),
    3: (25.71, 27.62, 18.33, 24.58, 28.48, 30.00, 25.00, 28.48, 28.89, 21.78, 23.70),
    4: (25.45, 21.90, 30.83, 23.75, 25.45, 25.83, 30.00, 22.42, 24.89, 28.44, 24.44),
}
"""Percent right when one choice is always given: all, by pattern, by configuration."""

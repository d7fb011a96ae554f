"""Other tools' formats: runs written in them, and others' predictions taken in as run folders."""

"""What judges are asked, one file for each judged rule."""

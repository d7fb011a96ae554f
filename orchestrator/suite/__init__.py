"""Suites: models x tasks x variants of one file, each cell an ordinary run, with one leaderboard."""

"""Scores of checkpoints, from the files of trainers, harnesses and trackers."""

"""The study file: its schema, its checks (all problems at once, with line numbers), and the runs it stands for."""

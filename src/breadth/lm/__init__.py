"""Language models: loading, scoring by pattern, choice or generation, and fine-tuning. Needs the ``lm`` extra."""

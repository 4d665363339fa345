"""Words, tables and pictures made from frames. Imports ``records`` only; knows no statistics of its own."""

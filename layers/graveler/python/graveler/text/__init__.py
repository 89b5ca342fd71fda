"""Text for people: numbers and names on one line, tables of HTML for notebooks."""

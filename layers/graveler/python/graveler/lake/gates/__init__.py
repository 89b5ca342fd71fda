"""Gates: the rules that guard branches and tags, the candidates that wait before them, and the verdicts that let them pass."""

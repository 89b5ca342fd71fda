"""The demo: the main job on real input, told while it happens.

``place`` is the folder that it may replace, ``stage`` runs command lines and shows them, ``story`` says which ones and checks
what they did.
"""

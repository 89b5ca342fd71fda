"""The demo: the main workflow on real input, explained as it runs.

``demo_folder`` manages the folder that it may replace, ``stage`` runs and shows command lines, ``story`` and ``tables`` choose
them and check their effects.
"""

"""The built files of the web page: `index.html` and `assets/`. ``make web`` builds them from ``web/src``; no code is here."""

"""One trial: its worker is started, watched and ended, and its outcome written."""

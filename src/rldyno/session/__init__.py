"""One `rldyno run`: from a study to finished trials, resumed, extended and repeated."""

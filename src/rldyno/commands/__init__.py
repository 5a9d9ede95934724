"""One file per sub-command: options and help text, then one call.

Heavy imports stay inside the functions, so that `rldyno trial`, which starts once per trial, does not pay for
the others.
"""

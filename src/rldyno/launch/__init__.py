"""Starting the trials of a plan, each as one `rldyno trial DIR`: here on this machine."""

"""Starting the trials of a plan, each as one `rldyno trial DIR`: on this machine, or as jobs of Slurm."""

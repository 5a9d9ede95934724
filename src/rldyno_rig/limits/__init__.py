"""What the environments and the accelerator of this machine can do at best."""

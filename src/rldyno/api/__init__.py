"""What `import rldyno` offers to people who write Python."""

"""The studies that come with rldyno, each found by its name."""

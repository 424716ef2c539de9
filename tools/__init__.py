"""Programs for those who work on forebay: README.md lists them. Nothing here is installed."""

"""What devices are like and how they are connected; contexts, which are devices under another name."""

"""What ``import rocm`` finds where this folder is in `sys.path`: forebay."""

from forebay.hip.stand_in import make_packages

if __name__ == "rocm":
    make_packages(__name__)

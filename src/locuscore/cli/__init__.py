"""The command line; `_app` has the commands, one module for each of them."""

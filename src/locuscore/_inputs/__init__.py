"""From rows to losses and to the float matrix an engine sees."""

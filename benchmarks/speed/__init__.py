"""How fast it is: every figure is taken beside a rival's in the same run (`make speed`)."""

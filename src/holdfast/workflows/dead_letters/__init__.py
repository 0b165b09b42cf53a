"""Dead letters of runs and steps: how they are made, and how an application replays them."""

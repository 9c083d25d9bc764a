"""The main job, shown on real components: `make demo`."""

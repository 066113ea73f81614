"""Models in the formats of other runtimes: `micrograd_core.checkpoints.export_onnx` finds this by its entry point."""

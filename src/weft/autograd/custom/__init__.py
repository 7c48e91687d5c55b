"""Custom Functions: their context, gradient record, outputs and forward mode. The class stands in `function`."""

"""Devices: for each a folder with its code generator, memory and queue. There is one, `cpu`."""
